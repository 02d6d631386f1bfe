// Long calls: they tell their progress, end where it cancels them, and leave nothing half-made.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/reclaim_fixture.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// Cancels at the call with that number, and checks each call.
class Canceller {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};

  explicit Canceller(uint64_t cancelling_call = kNever) : cancelling_call_(cancelling_call) {}

  ProgressFn function() {
    return [this](uint64_t done_count, uint64_t most_count) {
      EXPECT_EQ(std::this_thread::get_id(), thread_) << "another thread than the caller's";
      EXPECT_LE(done_count, most_count);
      EXPECT_LE(done_count_, done_count);
      done_count_ = done_count;
      most_count_ = most_count;
      return ++call_count_ < cancelling_call_;
    };
  }
  uint64_t call_count() const { return call_count_; }
  uint64_t done_count() const { return done_count_; }
  uint64_t most_count() const { return most_count_; }

 private:
  const uint64_t cancelling_call_;
  const std::thread::id thread_ = std::this_thread::get_id();
  uint64_t call_count_ = 0;
  uint64_t done_count_ = 0;
  uint64_t most_count_ = 0;
};

// A store of one bucket, so that one thread does all the work and pieces can be counted.
class LongCallTest : public ReclaimTest {
 protected:
  static constexpr uint64_t kKeys = 5000;

  void SetUp() override {
    options_.reclaim = Reclaim::kOff;
    ASSERT_NO_FATAL_FAILURE(OpenOneRegion(64));
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 1));
  }
  std::string Target(const std::string& name) const { return out_.Join(name); }

  // Expects that `call` answers kIncomplete at the second call of its progress function.
  void ExpectCancelled(const std::function<Status(const ProgressFn&)>& call) {
    Canceller canceller(2);
    EXPECT_EQ(call(canceller.function()).code(), Code::kIncomplete);
    EXPECT_EQ(canceller.call_count(), 2u);
    EXPECT_LT(canceller.done_count(), kKeys);
  }
  // Expects that `call` succeeds and tells in the end that all is done.
  static void ExpectTold(const std::function<Status(const ProgressFn&)>& call) {
    Canceller canceller;
    const Status status = call(canceller.function());
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_GE(canceller.call_count(), 2u);
    EXPECT_EQ(canceller.done_count(), canceller.most_count());
  }

  const TempDir out_{FastParent()};
};

TEST_F(LongCallTest, ACancelledCheckpointLeavesAnEmptyDirectory) {
  const auto checkpoint = [&](const ProgressFn& on_progress) {
    return store_->Checkpoint(Target("checkpoint"), {.reflink = false, .on_progress = on_progress});
  };
  ExpectCancelled(checkpoint);
  EXPECT_TRUE(fs::is_empty(Target("checkpoint")));
  ExpectTold(checkpoint);
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(OpenStore(Target("checkpoint")).get(), held_));
}

TEST_F(LongCallTest, ACancelledBackupOrRestoreLeavesNothing) {
  const auto backup = [&](const ProgressFn& on_progress) {
    return store_->Backup(Target("backup"), {.since = "", .on_progress = on_progress});
  };
  ExpectCancelled(backup);
  EXPECT_TRUE(fs::is_empty(Target("backup")));
  ExpectTold(backup);
  const auto restore = [&](const ProgressFn& on_progress) {
    return Store::Restore({}, Target("backup"), Target("restored"), nullptr, on_progress);
  };
  ExpectCancelled(restore);
  EXPECT_TRUE(fs::is_empty(Target("restored")));
  ExpectTold(restore);
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(OpenStore(Target("restored")).get(), held_));
  const auto verify = [&](const ProgressFn& on_progress) {
    return Store::VerifyBackup({}, Target("backup"), nullptr, on_progress);
  };
  ExpectCancelled(verify);
  ExpectTold(verify);
}

TEST_F(LongCallTest, ACancelledCopyLeavesNoStore) {
  store_.reset();
  VerifyReport report;
  const auto verify = [&](const ProgressFn& on_progress) {
    return Store::Verify({}, dir_.path(), &report, {}, on_progress);
  };
  ExpectCancelled(verify);
  EXPECT_EQ(report.bad_count, 0u);
  ExpectTold(verify);
  EXPECT_EQ(report.record_count, kKeys);
  const auto copy = [&](const ProgressFn& on_progress) {
    return Store::Copy({}, dir_.path(), Target("copy"), &report, {}, on_progress);
  };
  ExpectCancelled(copy);
  EXPECT_FALSE(fs::exists(Target("copy") + "/" + format::kManifestName));
  fs::remove_all(Target("copy"));
  ExpectTold(copy);
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(OpenStore(Target("copy")).get(), held_));
}

TEST_F(LongCallTest, ACancelledCompactLosesNothingAndCanBeRepeated) {
  // Every row has live records and dead ones.
  for (uint64_t i = 0; i < kKeys; i += 2) ASSERT_NO_FATAL_FAILURE(Write(i, 2));
  const auto compact = [&](const ProgressFn& on_progress) { return store_->Compact(on_progress); };
  ExpectCancelled(compact);
  EXPECT_LT(store_->Stats().reclaim_moved_bytes, kKeys / 2 * kValueBytes);
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  ExpectTold(compact);
  EXPECT_LT(store_->Stats().dead_bytes, kKeys / 10 * kValueBytes);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(LongCallTest, ACancelledReadOfManyAnswersForWhatItHasRead) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 3 * kKeys; ++i) keys.push_back(SpreadKey(i % kKeys));
  std::vector<char> values(keys.size() * kValueBytes);
  std::vector<Code> codes(keys.size());
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  const std::vector<std::function<Status(const ProgressFn&)>> reads = {
      [&](const ProgressFn& on_progress) {
        return store_->MultiReadInto(keys, values.data(), codes, on_progress);
      },
      [&](const ProgressFn& on_progress) {
        return store_->MultiReadInto(snapshot, keys, values.data(), codes, on_progress);
      }};
  for (const auto& read : reads) {
    std::fill(codes.begin(), codes.end(), Code::kCorruption);
    Canceller canceller(2);
    EXPECT_EQ(read(canceller.function()).code(), Code::kIncomplete);
    EXPECT_EQ(canceller.call_count(), 2u);
    // Two pieces.
    EXPECT_EQ(canceller.done_count(), 2 * 4096u);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(codes[i], i < canceller.done_count() ? Code::kOk : Code::kIncomplete) << i;
    }
    Canceller all;
    EXPECT_TRUE(read(all.function()).ok());
    EXPECT_EQ(all.call_count(), 4u);
    EXPECT_EQ(all.done_count(), keys.size());
    EXPECT_TRUE(std::all_of(codes.begin(), codes.end(), [](Code c) { return c == Code::kOk; }));
  }
}

TEST_F(LongCallTest, AReadOfManyKeepsASnapshotThatItsFunctionReleases) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(SpreadKey(i));
  std::vector<char> values(keys.size() * kValueBytes);
  std::vector<Code> codes(keys.size());
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  const auto release = [&](uint64_t done_count, uint64_t) {
    EXPECT_GE(done_count, 4096u);
    if (!snapshot.is_taken()) return true;
    snapshot.Release();
    EXPECT_EQ(store_->Stats().view_count, 1u);
    EXPECT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 2));
    return true;
  };
  ASSERT_TRUE(store_->MultiReadInto(snapshot, keys, values.data(), codes, release).ok());
  EXPECT_EQ(store_->Stats().view_count, 0u);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(codes[i], Code::kOk) << i;
    const std::string value(values.data() + i * kValueBytes, kValueBytes);
    ASSERT_EQ(value, ValueOf(keys[i], 1)) << i;
  }
}

TEST_F(LongCallTest, ACancelledReadOfManyTextsAnswersForWhatItHasRead) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < kKeys; ++i) texts.emplace_back(KeyBytes(SpreadKey(i)).view());
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  for (const bool at_snapshot : {false, true}) {
    std::vector<std::string> values(kKeys);
    std::vector<Status> statuses(kKeys);
    Canceller canceller(1);
    const Status status =
        at_snapshot ? store_->MultiRead(snapshot, keys, values, statuses, canceller.function())
                    : store_->MultiRead(keys, values, statuses, canceller.function());
    EXPECT_EQ(status.code(), Code::kIncomplete);
    EXPECT_EQ(canceller.done_count(), 4096u);
    for (size_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(statuses[i].code(), i < 4096 ? Code::kOk : Code::kIncomplete) << i;
      ASSERT_EQ(values[i].empty(), i >= 4096) << i;
    }
  }
}

}  // namespace
}  // namespace engine_race::test
