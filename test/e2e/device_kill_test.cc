// A process that writes to raw devices is killed, again and again: what it had acknowledged is
// there.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// Keeps reads in flight: what a killed process has in its rings holds the devices for a while.
[[noreturn]] void ReadForEver(Store* store) {
  constexpr uint64_t kKeys = 256;
  std::vector<std::string> bytes;
  for (uint64_t i = 0; i < kKeys; ++i) bytes.push_back(KeyOf(NthKey(i)));
  const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  std::vector<std::string> values(kKeys);
  std::vector<Status> statuses(kKeys);
  while (true) {
    if (!store->MultiRead(keys, values, statuses).ok()) _exit(3);
  }
}

// Writes keys from `begin` on until it is killed; *acknowledged is how many of all are written.
[[noreturn]] void WriteUntilKilled(const Options& options, const std::string& dir, uint64_t begin,
                                   std::atomic<uint64_t>* acknowledged) {
  std::unique_ptr<Store> store;
  if (!Store::Open(AsRun(options), dir, &store).ok()) _exit(1);
  std::thread([&store] { ReadForEver(store.get()); }).detach();
  for (uint64_t i = begin;; ++i) {
    if (!store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)).ok()) _exit(2);
    acknowledged->store(i + 1);
  }
}

TEST(DeviceKillTest, WhatWasAcknowledgedIsThere) {
  const LoopDevice first(64 * kMiB);
  const LoopDevice second(64 * kMiB);
  if (!first.valid() || !second.valid()) GTEST_SKIP() << "no loop devices here: " << first.why();
  const TempDir dir(FastParent());
  Options options;
  options.bucket_count = 4;
  options.file_count = 2;
  options.value_group_bytes = 16 * 1024;
  options.memory_budget_bytes = 32 * kMiB;
  options.paths = {first.path(), second.path()};

  void* const shared =
      ::mmap(nullptr, kIoAlignment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const acknowledged = new (shared) std::atomic<uint64_t>(0);
  constexpr uint64_t kRounds = 4;
  const uint64_t writes_a_round = Sized(800, 300);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t begin = acknowledged->load();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(options, dir.Join("store"), begin, acknowledged);
    int status = 0;
    while (acknowledged->load() < begin + writes_a_round) {
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it ended by itself";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);

    const uint64_t count = acknowledged->load();
    VerifyReport report;
    const Status verified = Store::Verify(options, dir.Join("store"), &report, {});
    EXPECT_TRUE(verified.ok()) << verified.ToString();
    EXPECT_LE(report.record_count - count, round + 1) << "one write may have been under way";
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options), dir.Join("store"), &store);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    std::string value;
    for (uint64_t i = 0; i < count; ++i) {
      const Status read = store->Read(KeyOf(NthKey(i)), &value);
      ASSERT_TRUE(read.ok()) << "key " << i << " of " << count << ": " << read.ToString();
      ASSERT_EQ(value, ValueOf(NthKey(i), 1)) << "key " << i;
    }
  }
  ::munmap(shared, kIoAlignment);
}

}  // namespace
}  // namespace engine_race::test
