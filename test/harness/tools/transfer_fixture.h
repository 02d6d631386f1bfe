// Imports and exports of small stores, ended at any moment.
#ifndef TEST_HARNESS_TOOLS_TRANSFER_FIXTURE_H_
#define TEST_HARNESS_TOOLS_TRANSFER_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/tools/store_rows.h"
#include "test/faults/fault_plan.h"
#include "test/harness/tools/row_files.h"
#include "test/test_util.h"

namespace engine_race::harness {

using Records = std::vector<std::pair<uint64_t, std::string>>;

inline bool GoOn(uint64_t, uint64_t) { return true; }

// After Arm, the next flush of a file whose name begins with `dir` fails. The kernel reports a lost
// write only once.
class FlushFailureHook : public test::SystemCallHook {
 public:
  explicit FlushFailureHook(std::string dir) : dir_(std::move(dir)) {}
  bool Arm() { return is_armed_ = true; }
  long OnCall(test::SystemCall* call) override {
    const bool is_flush =
        call->kind == test::CallKind::kFsync || call->kind == test::CallKind::kFdatasync;
    const bool is_meant = is_flush && test::PathOf(*call).starts_with(dir_);
    if (!is_meant || !is_armed_.exchange(false)) return call->Proceed();
    errno = EIO;
    return -1;
  }

 private:
  const std::string dir_;
  std::atomic<bool> is_armed_{false};
};

class TransferFixture : public testing::Test {
 protected:
  static constexpr uint64_t kCount = 100;
  static constexpr uint64_t kPiece = 8;

  TransferFixture() { MakeStore("store"); }

  void MakeStore(const std::string& name) const {
    Options options;
    options.bucket_count = 4;
    options.file_count = 1;
    options.value_group_bytes = 16384;
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, dir_.Join(name), &store).ok());
  }
  std::unique_ptr<Store> Open(const std::string& name = "store") const {
    Options options;
    options.create_if_missing = false;
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options, dir_.Join(name), &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }
  Records Stored(const std::string& name = "store") const {
    Records records;
    EXPECT_TRUE(Open(name)
                    ->Range({}, {},
                            [&](std::string_view key, std::string_view value) {
                              records.emplace_back(DecodeKey(key.data()), value);
                            })
                    .ok());
    return records;
  }
  // Values of version 1 by the place of their key.
  static Records Expected(const std::vector<uint64_t>& keys) {
    Records records;
    for (size_t i = 0; i < keys.size(); ++i) records.emplace_back(keys[i], test::ValueOf(i, 1));
    std::sort(records.begin(), records.end());
    return records;
  }
  static std::vector<uint64_t> RowNumbers(uint64_t count = kCount) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  static std::vector<uint64_t> SpreadKeys() {
    std::vector<uint64_t> keys = RowNumbers();
    for (uint64_t& key : keys) key = (key + 1) * 0x9e3779b97f4a7c15;
    return keys;
  }

  // A transfer by `file` in small pieces, with a note after each third one.
  Transfer Of(const std::string& file, const std::string& keys = {}) const {
    Transfer transfer;
    transfer.dir = dir_.Join("store");
    transfer.file = dir_.Join(file);
    if (!keys.empty()) transfer.keys = dir_.Join(keys);
    transfer.piece_records = kPiece;
    transfer.note_records = 3 * kPiece;
    return transfer;
  }
  Transfer Written(const std::string& file, const std::string& bytes) const {
    WriteWhole(dir_.Join(file), bytes);
    return Of(file);
  }
  uint64_t NotedIn(const std::string& note) const {
    return nlohmann::json::parse(ReadWhole(dir_.Join(note))).at("done");
  }
  void ExpectRefused(const Status& status, const std::string& why) const {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << why;
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
  }

  // Moves until `count` records are done, and cancels.
  void StopAt(uint64_t count, Status (*move)(const Transfer&, const ProgressFn&, TransferReport*),
              const Transfer& transfer) {
    const Status status = move(
        transfer, [&](uint64_t done, uint64_t) { return done < count; }, &report_);
    ASSERT_EQ(status.code(), Code::kIncomplete) << status.ToString();
    ASSERT_EQ(report_.record_count, count);
  }
  // Forks a child that moves, and dies at call number `nth` on a file below the test's directory.
  // True when it had finished before.
  bool DieAt(uint64_t nth, Status (*move)(const Transfer&, const ProgressFn&, TransferReport*),
             const Transfer& transfer) const {
    const pid_t child = ::fork();
    if (child == 0) {
      test::DeathPlan death(dir_.path(), nth,
                            nth % 2 == 0 ? test::DeathMoment::kTorn : test::DeathMoment::kAfter);
      const test::ScopedHook scope(&death);
      TransferReport report;
      ::syscall(SYS_exit_group, move(transfer, GoOn, &report).ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) return false;
    EXPECT_EQ(WEXITSTATUS(status), 0) << nth;
    return true;
  }

  test::TempDir dir_{test::FastParent()};
  TransferReport report_;
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_TOOLS_TRANSFER_FIXTURE_H_
