// Space that is given back: buckets filled and reclaimed many times over, full buckets, deletes.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "test/e2e/reclaim_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

const uint64_t kRounds = PartOf(Sized(20, 10), 2);

class ReclaimRoundsTest : public ReclaimTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  // In each round as many records are written as the buckets have slots.
  void FillAndReclaim(uint64_t key_count) {
    ASSERT_NO_FATAL_FAILURE(Open());
    uint64_t version = 0;
    for (uint64_t round = 0; round < kRounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      for (uint64_t written = 0; written < slot_count(); written += key_count) {
        ASSERT_NO_FATAL_FAILURE(WriteAllBy(GetParam(), key_count, ++version));
      }
      ASSERT_NO_FATAL_FAILURE(ExpectHeld());
      if (round % 5 == 4) {
        ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
      }
    }
    EXPECT_TRUE(HasRowFile());
  }
};

TEST_P(ReclaimRoundsTest, ARegionIsFilledAndReclaimed) {
  ASSERT_NO_FATAL_FAILURE(FillAndReclaim(slot_count() * 3 / 8));
}

// Live data takes five of a bucket's eight rows.
TEST_P(ReclaimRoundsTest, ARegionThatIsAlmostFullOfLiveDataIsReclaimed) {
  ASSERT_NO_FATAL_FAILURE(FillAndReclaim(slot_count() * 5 / 8));
}

// Four rows a bucket: one that the tail fills, one for moved records, two for the rest.
TEST_P(ReclaimRoundsTest, SmallRegionsAreReclaimed) {
  SetRegions(4);
  ASSERT_NO_FATAL_FAILURE(FillAndReclaim(1200));
}

// Rows are punched out of the segments of both paths.
TEST_P(ReclaimRoundsTest, StripedRegionsAreReclaimed) {
  options_.paths = {dir_.Join("a"), dir_.Join("b")};
  options_.bucket_capacity_records = 4 * kRowRecords;
  ASSERT_NO_FATAL_FAILURE(FillAndReclaim(slot_count() * 3 / 8));
}

// Writers wait for a journal, which names records by their numbers.
TEST_P(ReclaimRoundsTest, ADurableStoreIsReclaimed) {
  options_.sync_mode = SyncMode::kGroup;
  options_.journal_bytes = kMinJournalBytes;
  SetRegions(4);
  ASSERT_NO_FATAL_FAILURE(FillAndReclaim(slot_count() * 3 / 8));
}

INSTANTIATE_TEST_SUITE_P(Threads, ReclaimRoundsTest, ::testing::Values(1, 4),
                         [](const auto& info) { return std::to_string(info.param); });

// A store that nothing was deleted from takes as many keys as it has slots, and then refuses
// others. Its records stay.
TEST_F(ReclaimTest, LiveDataFillsARegionToItsEnd) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<uint64_t> counts(options_.bucket_count);
  uint64_t full_count = 0;
  for (uint64_t i = 0; full_count < options_.bucket_count; ++i) {
    uint64_t& count = counts[SpreadKey(i) >> 62];
    if (count > options_.bucket_capacity_records) continue;
    if (count++ < options_.bucket_capacity_records) {
      ASSERT_NO_FATAL_FAILURE(Write(i, 1));
      continue;
    }
    EXPECT_EQ(TryWrite(i, 1).code(), Code::kFull);
    ++full_count;
  }
  EXPECT_EQ(held_.size(), slot_count());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Where slots were used again, movers keep a row, and the rows of a bucket may not all be full.
TEST_F(ReclaimTest, ARegionIsFullOnlyOfLiveData) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t first_count = slot_count() * 3 / 8;
  for (uint64_t version = 1; version < 6; ++version) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, first_count, version));
  }
  std::vector<uint64_t> counts(options_.bucket_count);
  for (const auto& [key, version] : held_) ++counts[key >> 62];
  uint64_t full_count = 0;
  for (uint64_t i = first_count; full_count < options_.bucket_count; ++i) {
    uint64_t& count = counts[SpreadKey(i) >> 62];
    if (count > options_.bucket_capacity_records) continue;
    const Status status = TryWrite(i, 1);
    if (status.ok()) {
      held_[SpreadKey(i)] = 1;
      ++count;
      continue;
    }
    ASSERT_EQ(status.code(), Code::kFull) << status.ToString();
    EXPECT_GE(count, options_.bucket_capacity_records - 2 * kRowRecords) << "key " << i;
    count = options_.bucket_capacity_records + 1;
    ++full_count;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Keys that were never there before, in place of others that are deleted.
TEST_F(ReclaimTest, AllKeysAreDeletedAndOthersWrittenAgainAndAgain) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 3 / 8;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const uint64_t first = round * count;
    ASSERT_NO_FATAL_FAILURE(WriteAll(first, first + count, round + 1));
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    for (uint64_t i = first; i < first + count; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i));
    if (round % 5 == 4) {
      ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    }
  }
  EXPECT_TRUE(held_.empty());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, 100));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// A tombstone is kept for as long as an older record of its key has a slot. The last row of a
// bucket keeps what it has.
TEST_F(ReclaimTest, TombstonesGoWhenNothingOlderIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 3 / 8;
  const uint64_t row_slots = options_.bucket_count * kRowRecords;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, 1));
  for (uint64_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i));
  // The values go first, and later their tombstones. The tombstones may lie in the last rows.
  for (uint64_t round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(Compact());
    ASSERT_NO_FATAL_FAILURE(WriteAll(count, count + 2 * row_slots, round + 2));
  }
  ASSERT_NO_FATAL_FAILURE(Compact());
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  VerifyReport report;
  ASSERT_NO_FATAL_FAILURE(Verify(&report));
  EXPECT_GE(report.record_count, held_.size());
  EXPECT_LE(report.record_count, held_.size() + row_slots);
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
}

// A tombstone that went too early would bring an older value back, at the latest when the index is
// built anew.
TEST_F(ReclaimTest, DeletedKeysStayDeleted) {
  SetRegions(16);
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = 2000;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, 1));
  std::mt19937_64 random(5);
  for (uint64_t round = 2; round < 12; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    for (uint64_t n = 0; n < count / 2; ++n) {
      const uint64_t i = random() % count;
      if (random() % 2 == 0) {
        ASSERT_NO_FATAL_FAILURE(Delete(i));
      } else {
        ASSERT_NO_FATAL_FAILURE(Write(i, round));
      }
    }
    ASSERT_NO_FATAL_FAILURE(Compact());
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  }
}

// A batch needs room in all of its buckets at once.
TEST_F(ReclaimTest, BatchesFillAndReclaimARegion) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 3 / 8;
  std::mt19937_64 random(7);
  uint64_t version = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    for (uint64_t written = 0; written < slot_count();) {
      WriteBatch batch;
      ++version;
      for (uint64_t n = random() % 200; n <= 200; ++n) {
        const uint64_t key = SpreadKey(random() % count);
        if (random() % 8 == 0) {
          ASSERT_TRUE(batch.Delete(KeyBytes(key).view()).ok());
          held_.erase(key);
        } else {
          ASSERT_TRUE(batch.Put(KeyBytes(key).view(), ValueOf(key, version)).ok());
          held_[key] = version;
        }
      }
      written += batch.size();
      const Status status = store_->Write(batch);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    if (round % 5 == 4) {
      ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    }
  }
}

// Batches that staging cannot hold go to the logs in another way.
TEST_F(ReclaimTest, LargeBatchesFillAndReclaimARegion) {
  SetRegions(32);
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = 5000;
  for (uint64_t version = 1; version <= kRounds * 3; ++version) {
    SCOPED_TRACE("batch " + std::to_string(version));
    WriteBatch batch;
    for (uint64_t i = version % 2; i < count; ++i) {
      const uint64_t key = SpreadKey(i);
      ASSERT_TRUE(batch.Put(KeyBytes(key).view(), ValueOf(key, version)).ok());
      held_[key] = version;
    }
    const Status status = store_->Write(batch);
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (version % 15 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    }
  }
}

// The bucket's last row would be full of dead records, and live ones could not be moved any more.
TEST_F(ReclaimTest, ALargeBatchOfFewKeysDoesNotFillARegion) {
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(4));
  constexpr uint64_t kKeys = 150;
  uint64_t version = 1;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, version));
  WriteBatch batch;
  ++version;
  for (uint64_t i = 0; i < 3 * kRowRecords; ++i) {
    const uint64_t key = SpreadKey(i % kKeys);
    ASSERT_TRUE(batch.Put(KeyBytes(key).view(), ValueOf(key, version)).ok());
  }
  const Status status = store_->Write(batch);
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  for (uint64_t i = 0; i < kRounds; ++i) ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, ++version));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Deletions of keys that are not there are dead records, as many as they are.
TEST_F(ReclaimTest, ALargeBatchOfDeletionsDoesNotFillARegion) {
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(4));
  constexpr uint64_t kKeys = 4;
  constexpr uint64_t kAbsent = 1000;
  WriteBatch batch;
  for (uint64_t i = 0; i < slot_count(); ++i) {
    const uint64_t key = SpreadKey(i % kRowRecords == 0 ? i / kRowRecords : kAbsent + i);
    const KeyBytes bytes(key);
    const Status added = i % kRowRecords == 0 ? batch.Put(bytes.view(), ValueOf(key, 1))
                                              : batch.Delete(bytes.view());
    ASSERT_TRUE(added.ok());
  }
  const Status status = store_->Write(batch);
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  for (uint64_t i = 1; i < 4 * kRowRecords; ++i) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, i));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(ReclaimTest, LargeBatchesOfLiveRecordsFillARegionToItsEnd) {
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(4));
  constexpr uint64_t kBatchRecords = 2 * kRowRecords;
  for (uint64_t i = 0; i < slot_count(); i += kBatchRecords) {
    WriteBatch batch;
    for (uint64_t j = i; j < i + kBatchRecords; ++j) {
      const uint64_t key = SpreadKey(j);
      ASSERT_TRUE(batch.Put(KeyBytes(key).view(), ValueOf(key, 1)).ok());
      held_[key] = 1;
    }
    const Status status = store_->Write(batch);
    ASSERT_TRUE(status.ok()) << "from " << i << ": " << status.ToString();
  }
  EXPECT_EQ(TryWrite(slot_count(), 1).code(), Code::kFull);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

}  // namespace
}  // namespace engine_race::test
