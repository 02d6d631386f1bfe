#include "harness/load/bare_loops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ReadFilesTest, ReadsTheDataOfEachFileWithTheNameOnce) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path() + "/inside");
  const auto make = [&](const std::string& name, uint64_t begin, uint64_t bytes) {
    std::ofstream file(dir.path() + "/" + name);
    file.seekp(static_cast<std::streamoff>(begin));
    file << std::string(bytes, 'v');
    ASSERT_TRUE(file.good());
  };
  make("value_empty", 0, 0);
  make("value_short", 0, 5);
  make("inside/value_whole", 0, 3 * kMiB);
  make("value_behind_a_hole", 1024 * kMiB, 70 * kMiB);
  std::filesystem::resize_file(dir.path() + "/value_behind_a_hole", 4096 * kMiB);
  make("other", 0, kMiB);
  TimedPoint point;
  Status status = ReadFiles(dir.path(), kValueFilePrefix, &point, kMiB, 8);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(point.byte_count, 73 * kMiB + 5);
  EXPECT_EQ(point.request_count, 74u);
  status = ReadFiles(dir.path(), "", &point, 2 * kMiB, 1);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(point.byte_count, 74 * kMiB + 5);
  EXPECT_EQ(point.request_count, 35u + 2 + 1 + 1);
  EXPECT_FALSE(ReadFiles(dir.path() + "/missing", "", &point).ok());
}

namespace fs = std::filesystem;

constexpr uint32_t kThreads = 4;
constexpr uint32_t kGroupRecords = 4;

// The keys in front of the values in the loop's files. A value that is found twice fails the test.
std::set<uint64_t> KeysIn(const std::string& dir) {
  std::set<uint64_t> keys;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().filename() == "bare_staging") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> value(kValueSize);
    while (file.read(value.data(), kValueSize)) {
      uint64_t key = 0;
      std::memcpy(&key, value.data(), sizeof(key));
      EXPECT_TRUE(keys.insert(key).second);
    }
  }
  return keys;
}

BareWrites LoopIn(const std::string& dir) {
  BareWrites loop;
  loop.dir = dir + "/bare";
  loop.thread_count = kThreads;
  loop.group_bytes = kGroupRecords * kValueSize;
  return loop;
}

TEST(BareWritesTest, EveryFullGroupIsInAFile) {
  const test::TempDir dir;
  BareWrites loop = LoopIn(dir.path());
  loop.record_count = uint64_t{kThreads} * kGroupRecords * 3;
  TimedPoint run;
  const Status status = RunBareWrites(loop, &run);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(run.request_count, loop.record_count);
  std::set<uint64_t> expected;
  std::vector<char> value(kValueSize);
  for (uint64_t i = 0; i < loop.record_count; ++i) expected.insert(StampRecord(i, value.data()));
  EXPECT_EQ(KeysIn(loop.dir), expected);
}

TEST(BareWritesTest, RecordsSpreadOverTheGroupsOfAThread) {
  const test::TempDir dir;
  BareWrites loop = LoopIn(dir.path());
  loop.groups_per_thread = 8;
  loop.record_count = uint64_t{kThreads} * kGroupRecords * 100;
  TimedPoint run;
  ASSERT_TRUE(RunBareWrites(loop, &run).ok());
  const size_t written = KeysIn(loop.dir).size();
  EXPECT_EQ(written % kGroupRecords, 0u);
  // Records in groups that are not full stay in memory.
  const uint64_t left_at_most = uint64_t{kThreads} * loop.groups_per_thread * (kGroupRecords - 1);
  EXPECT_GE(written, loop.record_count - left_at_most);
  EXPECT_LT(written, loop.record_count);
}

TEST(BareWritesTest, ADirectoryThatCannotBeMadeIsAFailure) {
  TimedPoint run;
  EXPECT_FALSE(RunBareWrites(LoopIn("/proc"), &run).ok());
}

// Writes of many threads in common transactions.

constexpr uint64_t kCommitters = 16;
constexpr uint64_t kWrites = 500;

TEST(GroupCommitTest, CommitsEveryWriteOnceInGroupsThatKeepTheLimit) {
  std::set<uint64_t> keys;
  std::atomic<int> committing{0};
  size_t largest = 0;
  GroupCommit commits(8, [&](std::span<const GroupedWrite> writes) {
    EXPECT_EQ(++committing, 1);
    std::this_thread::yield();
    largest = std::max(largest, writes.size());
    for (const GroupedWrite& write : writes) EXPECT_TRUE(keys.insert(write.key).second);
    --committing;
    return Status::Ok();
  });
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kCommitters; ++thread) {
      threads.emplace_back([&commits, thread] {
        for (uint64_t i = 0; i < kWrites; ++i) {
          EXPECT_TRUE(commits.Submit({thread * kWrites + i, nullptr}).ok());
        }
      });
    }
  }
  EXPECT_EQ(keys.size(), kCommitters * kWrites);
  EXPECT_LE(largest, 8u);
}

TEST(GroupCommitTest, AFailureReachesEveryWriteOfItsGroup) {
  std::atomic<uint64_t> refused_count{0};
  GroupCommit commits(8, [&](std::span<const GroupedWrite> writes) {
    for (const GroupedWrite& write : writes) {
      if (write.key % 10 != 0) continue;
      refused_count += writes.size();
      return Status::Full("no room");
    }
    return Status::Ok();
  });
  std::atomic<uint64_t> seen_count{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kCommitters; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t i = 0; i < kWrites; ++i) {
          const uint64_t key = thread * kWrites + i;
          const Status status = commits.Submit({key, nullptr});
          if (key % 10 == 0) {
            EXPECT_EQ(status.code(), Code::kFull);
          }
          if (!status.ok()) ++seen_count;
        }
      });
    }
  }
  EXPECT_EQ(seen_count, refused_count);
}

}  // namespace
}  // namespace engine_race::harness
