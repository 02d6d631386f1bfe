// Store::Compact and the stats of space: live and dead bytes, write amplification, reclaim's share.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/stats_fields.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/eventually.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kSpaceKeys = 4096;
constexpr uint32_t kBuckets = 4;

// Spread evenly over the buckets.
uint64_t KeyAt(uint64_t i) { return i << 52; }

class StoreSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(Reclaim::kOff); }

  void Open(Reclaim reclaim) {
    Options options = TinyOptions();
    options.reclaim = reclaim;
    // Only Compact cleans.
    options.reclaim_dead_percent = 99;
    store_.reset();
    store_ = OpenStore(dir_.path(), options);
    ASSERT_NE(store_, nullptr);
  }
  // Every `step`th key.
  void WriteKeys(uint64_t version, uint64_t step = 1) {
    for (uint64_t i = 0; i < kSpaceKeys; i += step) {
      ASSERT_TRUE(store_->Write(KeyOf(KeyAt(i)), ValueOf(KeyAt(i), version)).ok()) << i;
    }
  }
  void ExpectVersion(uint64_t version) {
    std::string value;
    for (uint64_t i = 0; i < kSpaceKeys; ++i) {
      ASSERT_TRUE(store_->Read(KeyOf(KeyAt(i)), &value).ok()) << i;
      ASSERT_EQ(value, ValueOf(KeyAt(i), version)) << i;
    }
  }
  // Bytes that the file system has allocated to the value logs.
  uint64_t AllocatedValueBytes() const {
    uint64_t bytes = 0;
    for (const char* name : {"value_00", "value_01"}) {
      struct stat info = {};
      EXPECT_EQ(::stat(dir_.Join(name).c_str(), &info), 0) << name;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }
  std::vector<BucketSpace> Space() {
    std::vector<BucketSpace> buckets;
    EXPECT_TRUE(store_->SpaceByBucket(&buckets).ok());
    return buckets;
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreSpaceTest, CompactGivesBackTheSpaceOfOverwrittenRecords) {
  WriteKeys(1);
  WriteKeys(2);
  WriteKeys(3);
  ASSERT_TRUE(store_->Compact().ok());
  const StoreStats stats = store_->Stats();
  EXPECT_GE(stats.reclaim_freed_bytes, 2 * kSpaceKeys * kValueBytes * 9 / 10);
  EXPECT_GE(stats.reclaim_read_bytes, 3 * kSpaceKeys * kKeyEntryBytes);
  ExpectVersion(3);
  store_.reset();
  Open(Reclaim::kOff);
  ExpectVersion(3);
}

TEST_F(StoreSpaceTest, BytesOfEachBucketAreThoseOfItsRecords) {
  WriteKeys(1);
  std::vector<BucketSpace> buckets = Space();
  ASSERT_EQ(buckets.size(), kBuckets);
  for (const BucketSpace& bucket : buckets) {
    EXPECT_EQ(bucket.live_bytes, kSpaceKeys / kBuckets * kValueBytes);
    EXPECT_EQ(bucket.dead_bytes, 0u);
  }
  WriteKeys(2, /*step=*/2);
  ASSERT_TRUE(store_->Compact().ok());
  buckets = Space();
  for (const BucketSpace& bucket : buckets) {
    EXPECT_EQ(bucket.live_bytes, kSpaceKeys / kBuckets * kValueBytes);
    // The last row is never given up, so a bucket may keep some dead records.
    EXPECT_LE(bucket.dead_bytes, 256 * kValueBytes);
  }
  const uint64_t dead_bytes = buckets[1].dead_bytes;
  constexpr uint64_t kRewritten = 10;
  for (uint64_t i = 0; i < kRewritten; ++i) {
    const uint64_t key = KeyAt(kSpaceKeys / kBuckets + i);
    ASSERT_TRUE(store_->Write(KeyOf(key), ValueOf(key, 3)).ok());
  }
  buckets = Space();
  EXPECT_EQ(buckets[1].live_bytes, kSpaceKeys / kBuckets * kValueBytes);
  EXPECT_EQ(buckets[1].dead_bytes, dead_bytes + kRewritten * kValueBytes);
  uint64_t live_sum = 0;
  uint64_t dead_sum = 0;
  for (const BucketSpace& bucket : buckets) {
    live_sum += bucket.live_bytes;
    dead_sum += bucket.dead_bytes;
  }
  EXPECT_EQ(store_->Stats().live_bytes, live_sum);
  EXPECT_EQ(store_->Stats().dead_bytes, dead_sum);
  EXPECT_EQ(store_->SpaceByBucket(nullptr).code(), Code::kInvalidArgument);
}

TEST_F(StoreSpaceTest, BytesThatReclaimWritesAgainAmplifyWrites) {
  EXPECT_EQ(store_->Stats().write_amplification(), 0);
  WriteKeys(1);
  ASSERT_TRUE(store_->Sync().ok());
  const StoreStats before = store_->Stats();
  EXPECT_GE(before.write_amplification(), 1);
  EXPECT_LE(before.write_amplification(), 1.1);
  EXPECT_EQ(before.reclaim_share(), 0);
  // Of each two neighbours one is dead then.
  WriteKeys(2, /*step=*/2);
  ASSERT_TRUE(store_->Compact().ok());
  const StoreStats after = store_->Stats();
  EXPECT_GE(after.reclaim_moved_bytes, kSpaceKeys / 4 * kValueBytes);
  EXPECT_GE(after.log_written_bytes, after.written_value_bytes() + after.reclaim_moved_bytes);
  EXPECT_GE(after.write_amplification(), 1.16);
}

// The values of rows that were freed and not released before the store was closed.
TEST_F(StoreSpaceTest, SpaceThatWasHeldUntilTheStoreWasClosedIsGivenBackLater) {
  WriteKeys(1);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  WriteKeys(2);
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_GE(AllocatedValueBytes(), 2 * kSpaceKeys * kValueBytes);
  Open(Reclaim::kOff);
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_LE(AllocatedValueBytes(), kSpaceKeys * kValueBytes * 11 / 10);
  ExpectVersion(2);
  WriteKeys(3);
  ExpectVersion(3);
}

// Background reclaim does that, though nothing is written any more.
TEST_F(StoreSpaceTest, SpaceThatASnapshotHoldsIsGivenBackOnceItIsReleased) {
  Open(Reclaim::kBackground);
  WriteKeys(1);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  WriteKeys(2);
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_EQ(store_->Stats().reclaim_freed_bytes, 0u);
  std::string value;
  ASSERT_TRUE(store_->Read(snapshot, KeyOf(KeyAt(7)), &value).ok());
  EXPECT_EQ(value, ValueOf(KeyAt(7), 1));
  snapshot.Release();
  EXPECT_TRUE(Eventually([&] { return store_->Stats().reclaim_freed_bytes > 0; }));
  ExpectVersion(2);
}

TEST(StoreStatsFormulaTest, RatiosAreThoseOfTheBytes) {
  StoreStats stats;
  EXPECT_EQ(stats.write_amplification(), 0);
  EXPECT_EQ(stats.reclaim_share(), 0);
  stats.write_count = 100;
  stats.log_written_bytes = 140 * kValueBytes;
  stats.index_written_bytes = 10 * kValueBytes;
  EXPECT_EQ(stats.write_amplification(), 1.5);
  stats.reclaim_read_bytes = 300;
  stats.reclaim_moved_bytes = 100;
  EXPECT_EQ(stats.reclaim_share(), 0);
  stats.process_read_bytes = 600;
  stats.process_written_bytes = 1000;
  EXPECT_EQ(stats.reclaim_share(), 0.25);
  for (const StatsField& field : StatsFields()) {
    if (field.name == "write_amplification_percent") {
      EXPECT_EQ(field.get(stats), 150u);
    }
    if (field.name == "reclaim_share_percent") {
      EXPECT_EQ(field.get(stats), 25u);
    }
  }
  // The kernel does not count every byte everywhere.
  stats.process_read_bytes = stats.process_written_bytes = 1;
  EXPECT_EQ(stats.reclaim_share(), 1);
}

}  // namespace
}  // namespace engine_race::test
