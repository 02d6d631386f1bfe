#include "engine_race/scan/range_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "engine_race/scan/window_pool.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

// Chunks of whole buckets, of buckets put together, of pieces of one bucket: one suite for all.
struct Shape {
  const char* name;
  uint32_t bucket_count;
  uint64_t records;
  uint64_t budget_bytes;
};

class RangeReaderShapeTest : public ::testing::TestWithParam<Shape> {};

TEST_P(RangeReaderShapeTest, AFullScanEqualsTheModel) {
  ScanStore store(GetParam().bucket_count);
  store.Fill(GetParam().records);
  store.OpenReader(GetParam().budget_bytes);
  ExpectScanMatches(store);
  ExpectScanMatches(store);
}

TEST_P(RangeReaderShapeTest, BoundsAreKept) {
  ScanStore store(GetParam().bucket_count);
  store.Fill(GetParam().records);
  store.OpenReader(GetParam().budget_bytes);
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    uint64_t first = random();
    // From a handful of records to all of them.
    const uint64_t width = random() >> (random() % 20);
    uint64_t last = first <= ~width ? first + width : ~uint64_t{0};
    if (round % 4 == 0) {
      auto low = store.model.lower_bound(first);
      if (low != store.model.end()) first = low->first;
    }
    if (round % 5 == 0) {
      auto high = store.model.lower_bound(last);
      if (high != store.model.end()) last = high->first;
    }
    ExpectScanMatches(store, first, last);
  }
}

TEST_P(RangeReaderShapeTest, OverwrittenAndDeletedKeys) {
  ScanStore store(GetParam().bucket_count);
  store.Fill(GetParam().records);
  for (uint64_t i = 0; i < GetParam().records; i += 3) store.Put(SpreadKey(i), 2);
  for (uint64_t i = 0; i < GetParam().records; i += 5) store.Delete(SpreadKey(i));
  store.OpenReader(GetParam().budget_bytes);
  ExpectScanMatches(store);
  // The cache must not hide what comes later.
  for (uint64_t i = 0; i < GetParam().records; i += 7) store.Put(SpreadKey(i), 3);
  for (uint64_t i = 1; i < GetParam().records; i += 11) store.Delete(SpreadKey(i));
  ExpectScanMatches(store);
  ExpectScanMatches(store);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RangeReaderShapeTest,
                         ::testing::Values(Shape{"Fits", 16, Sized(6000, 1500), 64 * kMiB},
                                           Shape{"AboveTheBudget", 16, Sized(8000, 4000), 8 * kMiB},
                                           Shape{"OneBucket", 1, Sized(6000, 3000), 8 * kMiB},
                                           Shape{"ManySmallBuckets", 4096, Sized(6000, 2000),
                                                 16 * kMiB},
                                           Shape{"FewRecords", 256, 100, 8 * kMiB}),
                         [](const auto& info) { return info.param.name; });

TEST(RangeReaderTest, AnEmptyStoreHasNothing) {
  ScanStore store;
  store.OpenReader();
  ExpectScanMatches(store);
  EXPECT_EQ(0u, store.reader->read_bytes());
}

TEST(RangeReaderTest, CrossedBoundsVisitNothing) {
  ScanStore store;
  store.Fill(100);
  store.OpenReader();
  ModelVisitor visitor(store.model);
  EXPECT_TRUE(store.Scan(10, 9, visitor).ok());
  EXPECT_EQ(0u, visitor.count);
}

TEST(RangeReaderTest, TheEndsOfTheKeySpace) {
  ScanStore store;
  for (uint64_t i = 0; i < 300; ++i) {
    store.Put(i);
    store.Put(~uint64_t{0} - i);
  }
  store.OpenReader();
  ExpectScanMatches(store);
  ExpectScanMatches(store, 0, 0);
  ExpectScanMatches(store, ~uint64_t{0}, ~uint64_t{0});
  ExpectScanMatches(store, 299, ~uint64_t{0} - 299);
}

TEST(RangeReaderTest, SequentialKeysInOneBucketOfMany) {
  ScanStore store(1024);
  for (uint64_t i = 0; i < Sized(5000, 2000); ++i) store.Put(i);
  store.OpenReader(8 * kMiB);
  ExpectScanMatches(store);
  ExpectScanMatches(store, 100, 1500);
}

TEST(RangeReaderTest, AShortRangeReadsOnlyWhatItNeeds) {
  ScanStore store(4);
  store.Fill(Sized(4000, 2000));
  store.OpenReader();
  auto at = store.model.begin();
  std::advance(at, 700);
  const uint64_t first = at->first;
  std::advance(at, 19);
  ExpectScanMatches(store, first, at->first);
  // Some of the records may be staged still; gaps of a few slots are read along.
  EXPECT_LE(store.reader->read_bytes(), 64u * kValueBytes);
}

TEST(RangeReaderTest, AVisitorThatEndsTheScanSoonHasLittleRead) {
  ScanStore store;
  store.Fill(2000);
  for (const uint64_t wanted : {1U, 5U, 80U}) {
    store.OpenReader();
    uint64_t count = 0;
    EXPECT_THROW(static_cast<void>(store.Scan(0, UINT64_MAX,
                                              [&](uint64_t, const char*) {
                                                if (++count == wanted) throw wanted;
                                              })),
                 uint64_t);
    EXPECT_LE(store.reader->read_bytes(), 4 * BufferLayout().buffer_bytes());
    EXPECT_LE(store.reader->read_bytes(), 5 * wanted * kValueBytes);
    ExpectScanMatches(store);
  }
}

TEST(RangeReaderTest, AnotherPassOverWhatFitsReadsNothingMore) {
  ScanStore store;
  store.Fill(2000);
  store.OpenReader(64 * kMiB);
  ExpectScanMatches(store);
  const uint64_t first_pass = store.reader->read_bytes();
  EXPECT_GT(first_pass, 0u);
  // The first records are read for themselves, too.
  EXPECT_LE(first_pass, store.live_bytes() + 4 * BufferLayout().buffer_bytes());
  ExpectScanMatches(store);
  EXPECT_EQ(first_pass, store.reader->read_bytes());
}

TEST(RangeReaderTest, AWriteReplacesOnlyItsOwnChunk) {
  ScanStore store(16);
  store.Fill(12000);  // a bucket a chunk
  store.OpenReader(64 * kMiB);
  ExpectScanMatches(store);
  const uint64_t first_pass = store.reader->read_bytes();
  store.Put(SpreadKey(5), 2);
  ExpectScanMatches(store);
  EXPECT_LE(store.reader->read_bytes() - first_pass, store.live_bytes() / 8);
}

TEST(RangeReaderTest, TheSecondPassReusesWhatTheBudgetHolds) {
  ScanStore store(64);
  store.Fill(Sized(16000, 6000));
  const uint64_t budget = store.live_bytes() / 2;
  store.OpenReader(budget);
  ExpectScanMatches(store);
  const uint64_t first_pass = store.reader->read_bytes();
  ExpectScanMatches(store);
  const uint64_t second_pass = store.reader->read_bytes() - first_pass;
  EXPECT_LE(second_pass, first_pass * 3 / 4);
  EXPECT_LE(store.reader->memory_bytes(), budget + budget / 16);
}

TEST(RangeReaderTest, WithoutVerificationTheSame) {
  ScanStore store;
  store.options.verify_checksums = false;
  store.Fill(1500);
  store.OpenReader();
  ExpectScanMatches(store);
}

TEST(RangeReaderTest, EveryBackEndTheSame) {
  for (const IoBackend backend : {IoBackend::kPsync, IoBackend::kLibaio}) {
    ScanStore store;
    store.options.io_backend = backend;
    store.Fill(1500);
    store.OpenReader(8 * kMiB);
    ExpectScanMatches(store);
    ExpectScanMatches(store, 0, SpreadKey(3));
  }
}

}  // namespace
}  // namespace engine_race::test
