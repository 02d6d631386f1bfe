// A cut of a log is one moment of all buckets.
#include "engine_race/log/log_cut.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/eventually.h"
#include "test/faults/call_watch.h"
#include "test/log/log_test_util.h"
#include "test/log/row_test_util.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

// A cut that has begun and has come to no bucket: it waits for the lock of the first one.
class BegunCut {
 public:
  explicit BegunCut(BucketLog* log)
      : holder_([this, log] {
          log->reader().WithBucketLocked(0, [this] {
            is_locked_ = true;
            EXPECT_TRUE(Eventually([this] { return may_go_on_.load(); }));
          });
        }) {
    EXPECT_TRUE(Eventually([this] { return is_locked_.load(); }));
    cutter_.emplace([this, log] { EXPECT_TRUE(log->TakeCut(&counts, &tables).ok()); });
    EXPECT_TRUE(cutter_->AwaitSleep());
  }
  void End() {
    may_go_on_ = true;
    cutter_->Join();
  }

  // After End.
  std::vector<uint64_t> counts;
  std::vector<SlotTable> tables;

 private:
  std::atomic<bool> is_locked_ = false;
  std::atomic<bool> may_go_on_ = false;
  std::jthread holder_;
  std::optional<WatchedThread> cutter_;
};

TEST(LogCutTest, CountsWhatWasAppendedBefore) {
  const TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  std::vector<uint64_t> counts;
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, std::vector<uint64_t>(4, 0));
  for (uint64_t key = 0; key < 10; ++key) {
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
  }
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{10, 0, 0, 0}));
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{10, 0, 0, 0}));
}

// One thread appends to the last bucket and then to the first. So no moment has more records in the
// first bucket. Counts that are read one after another would, sooner or later.
TEST(LogCutTest, IsOneMomentOfAllBuckets) {
  const TempDir dir(FastParent());
  // So many that the writer comes to both while a cut is taken.
  Options options = TinyLogOptions();
  options.bucket_count = 1024;
  const auto log = OpenLog(options, dir.path());
  const uint32_t bucket_count = log->geometry().bucket_count;
  const std::jthread writer([&](const std::stop_token& stop) {
    const std::string value = ValueOf(1, 1);
    for (uint64_t i = 0; !stop.stop_requested(); ++i) {
      for (const uint64_t bucket : {bucket_count - 1, uint32_t{0}}) {
        const uint64_t key = log->geometry().FirstKeyOf(static_cast<uint32_t>(bucket)) + i % 100;
        if (!log->Append(key, value.data()).ok()) return;
      }
    }
  });
  std::vector<uint64_t> counts;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t before = log->RecordCount(0);
    ASSERT_TRUE(log->TakeCut(&counts).ok());
    EXPECT_GE(counts[0], before);
    ASSERT_LE(counts[0], counts[bucket_count - 1]);
    ASSERT_LE(counts[bucket_count - 1], counts[0] + 1);
  }
}

// The slots of a row are freed when the cut has begun, and before it comes to their bucket.
TEST(LogCutTest, HasTheRowsOfItsMoment) {
  const TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  const uint64_t first_key = log->geometry().FirstKeyOf(1);
  for (uint64_t i = 0; i < 3 * kTinyRowRecords; ++i) {
    ASSERT_TRUE(log->Append(first_key + i, ValueOf(i, 1).data()).ok());
  }
  uint32_t moved_row = 0;
  ASSERT_NO_FATAL_FAILURE(MoveRow(log.get(), /*bucket=*/1, /*from_row=*/0, &moved_row));
  const std::vector<CutPin> pins = log->PinRows();
  std::optional<BegunCut> cut;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kPwrite && PathOf(*call).ends_with(format::kRowsName) && !cut) {
      cut.emplace(log.get());
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(log->mover().Settle().ok());
  }
  ASSERT_TRUE(cut.has_value());
  ASSERT_TRUE(log->Append(first_key, ValueOf(0, 2).data()).ok());
  cut->End();
  EXPECT_EQ(cut->counts[1], 3 * kTinyRowRecords);
  EXPECT_TRUE(cut->tables[1].rows()[0].has_run()) << "freed behind the cut";
  EXPECT_FALSE(cut->tables[1].rows()[moved_row].kept().empty());
  std::vector<uint64_t> counts;
  std::vector<SlotTable> tables;
  ASSERT_TRUE(log->TakeCut(&counts, &tables).ok());
  EXPECT_EQ(counts[1], 3 * kTinyRowRecords + 1);
  EXPECT_TRUE(tables[1].rows()[0].free());
}

// Gaps of a row are filled when the cut has begun: it has the run that the row had before.
TEST(LogCutTest, HasTheRunsOfRowsThatAreFilledAgainBehindIt) {
  const TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  const uint32_t row_records = log->geometry().row_records();
  const uint64_t first_key = log->geometry().FirstKeyOf(1);
  for (uint64_t i = 0; i < 3 * row_records; ++i) {
    ASSERT_TRUE(log->Append(first_key + i, ValueOf(i, 1).data()).ok());
  }
  ASSERT_TRUE(log->Sync().ok());
  const SlotBits gaps = SlotBits::First(row_records / 4);
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log.get(), /*bucket=*/1, /*row=*/0, gaps));
  BegunCut cut(log.get());
  ASSERT_TRUE(log->Append(first_key, ValueOf(0, 2).data()).ok());
  cut.End();
  EXPECT_EQ(cut.counts[1], 3 * row_records);
  Row at_cut = RunRow(row_records, /*number=*/0);
  at_cut.held = at_cut.held - gaps;
  EXPECT_EQ(cut.tables[1].rows()[0], at_cut);
  std::vector<uint64_t> counts;
  std::vector<SlotTable> tables;
  ASSERT_TRUE(log->TakeCut(&counts, &tables).ok());
  EXPECT_EQ(counts[1], 3 * row_records + 1);
  EXPECT_EQ(tables[1].rows()[0].number, 3 * row_records);
  EXPECT_EQ(tables[1].rows()[0].path, gaps);
}

}  // namespace
}  // namespace engine_race::test
