// Whole stores: what is written comes back, whatever the keys, the order, and the number of
// openings.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "test/e2e/engine_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

using polar_race::kSucc;
using Expected = std::map<uint64_t, uint64_t>;

void PutWhole(Store* store, uint64_t key, uint64_t version) {
  const Status status = store->Write(KeyOf(key), ValueOf(key, version));
  ASSERT_TRUE(status.ok()) << status.ToString();
}

// Writes version 1 of `key_of(0)` to `key_of(count - 1)` from a few threads, then expects exactly
// them: at once, and again in a new opening.
void ExpectKeysComeBack(const Options& options, uint64_t count,
                        const std::function<uint64_t(uint64_t)>& key_of) {
  TempDir dir;
  Expected expected;
  for (uint64_t i = 0; i < count; ++i) expected[key_of(i)] = 1;
  ASSERT_EQ(expected.size(), count) << "the keys of this test are not distinct";
  {
    const auto store = OpenStore(dir.path(), options);
    constexpr uint32_t kThreads = 8;
    RunThreads(kThreads, [&](uint32_t t) {
      for (uint64_t i = t; i < count; i += kThreads) PutWhole(store.get(), key_of(i), 1);
    });
    ExpectHolds(store.get(), expected);
  }
  ExpectHolds(OpenStore(dir.path()).get(), expected);
}

TEST(EndToEndTest, SequentialIntegers) {
  ExpectKeysComeBack(Options(), Sized(PartOf(12000, 2), 2000), [](uint64_t i) { return i; });
}

TEST(EndToEndTest, AllKeysUnderOnePrefix) {
  std::mt19937_64 rng(1);
  std::vector<uint64_t> keys(Sized(PartOf(12000, 2), 2000));
  for (uint64_t& key : keys) key = 0xabc0000000000000 | (rng() >> 10);
  ExpectKeysComeBack(Options(), keys.size(), [&](uint64_t i) { return keys[i]; });
}

TEST(EndToEndTest, UniformKeys) {
  ExpectKeysComeBack(Options(), Sized(PartOf(12000, 2), 2000),
                     [](uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; });
}

TEST(EndToEndTest, DescendingKeysFarApart) {
  ExpectKeysComeBack(Options(), Sized(8000, 1500),
                     [](uint64_t i) { return ~uint64_t{0} - i * 0x0001000000000001; });
}

TEST(EndToEndTest, SeventyThousandRecordsInOneBucket) {
  ExpectKeysComeBack(Options(), Sized(70000, 4000), [](uint64_t i) {
    return 0xffc0000000000000 | (i * 0x9e3779b97f4a7c15 >> 10);
  });
}

TEST(EndToEndTest, OneBucketForEverything) {
  Options options = TinyOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  ExpectKeysComeBack(options, Sized(8000, 1500),
                     [](uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; });
}

TEST(EndToEndTest, TinyGroupsOfEachSize) {
  for (const uint32_t value_group_bytes : {4096, 16384, 1 << 20}) {
    for (const uint32_t key_group_bytes : {4096, 8192}) {
      SCOPED_TRACE(std::to_string(value_group_bytes) + " " + std::to_string(key_group_bytes));
      Options options = TinyOptions();
      options.value_group_bytes = value_group_bytes;
      options.key_group_bytes = key_group_bytes;
      ExpectKeysComeBack(options, Sized(2500, 500),
                         [](uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; });
    }
  }
}

TEST(EndToEndTest, OneKeyOverwrittenAMillionTimes) {
  TempDir dir;
  const uint64_t count = Sized(PartOf(1000000, 10), 5000);
  const uint64_t key = 0x123456789abcdef0;
  {
    const auto store = OpenStore(dir.path());
    std::string value = ValueOf(key, 1);
    for (uint64_t version = 1; version <= count; ++version) {
      FillValue(key, version, value.data());
      ASSERT_TRUE(store->Write(KeyOf(key), value).ok());
    }
    EXPECT_EQ(VersionOf(store.get(), key), count);
  }
  const auto store = OpenStore(dir.path());
  ExpectHolds(store.get(), {{key, count}});
  EXPECT_EQ(store->Stats().record_count, count);
  // The index of the new opening takes the next ones, too.
  for (uint64_t version = count + 1; version <= count + 1000; ++version) {
    PutWhole(store.get(), key, version);
  }
  ExpectHolds(store.get(), {{key, count + 1000}});
}

TEST(EndToEndTest, EmptyStore) {
  TempDir dir;
  for (int opening = 0; opening < 3; ++opening) {
    const auto engine = OpenEngine(dir.path());
    ASSERT_NE(engine, nullptr);
    ExpectHolds(engine.get(), {});
    EXPECT_EQ(VersionOf(engine.get(), 42), 0u);
    EXPECT_TRUE(RangeOf(engine.get(), KeyOf(1), KeyOf(~uint64_t{0})).empty());
  }
}

TEST(EndToEndTest, StretchesOfEmptyBuckets) {
  TempDir dir;
  const Expected expected = {{5, 1}, {0x4000000000000000, 1}, {0xfffffffffffffff0, 1}};
  {
    const auto store = OpenStore(dir.path());
    for (const auto& [key, version] : expected) PutWhole(store.get(), key, version);
    ExpectHolds(store.get(), expected);
  }
  const auto store = OpenStore(dir.path());
  ExpectHolds(store.get(), expected);
  EXPECT_TRUE(RangeOf(store.get(), KeyOf(6), KeyOf(0x4000000000000000)).empty());
  EXPECT_EQ(VersionOf(store.get(), 0x8000000000000000), 0u);
}

// A random load in many short openings, with the index built first, last or never.
void ReopenManyTimes(const Options& options, uint64_t seed) {
  TempDir dir;
  std::mt19937_64 rng(seed);
  Expected expected;
  const uint64_t keys = Sized(400, 100);
  for (uint64_t opening = 1; opening <= Sized(PartOf(40, 2), 12); ++opening) {
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    if (rng() % 3 == 0) ExpectHolds(store.get(), expected);
    const uint64_t count = rng() % 150;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = rng() % keys * 0x0123456789abcdef;
      if (rng() % 5 == 0) {
        ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
        expected.erase(key);
      } else {
        PutWhole(store.get(), key, opening * 1000 + i);
        expected[key] = opening * 1000 + i;
      }
    }
    if (rng() % 3 == 0) ExpectHolds(store.get(), expected);
  }
  ExpectHolds(OpenStore(dir.path()).get(), expected);
}

TEST(EndToEndTest, ReopenedManyTimesWithPartialGroups) {
  ReopenManyTimes(Options(), 1);
  ReopenManyTimes(TinyOptions(), 2);
  Options options = TinyOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  options.value_group_bytes = 4096;
  options.verify_checksums = false;
  ReopenManyTimes(options, 3);
}

TEST(EndToEndTest, DeletesAreRespectedAndOverwritten) {
  TempDir dir;
  {
    const auto store = OpenStore(dir.path(), TinyOptions());
    EXPECT_TRUE(store->Delete(KeyOf(7)).ok()) << "deleting what is not there";
    for (uint64_t key = 0; key < 100; ++key) PutWhole(store.get(), key, 1);
    for (uint64_t key = 0; key < 100; key += 2) ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
    for (uint64_t key = 0; key < 100; key += 4) PutWhole(store.get(), key, 2);
  }
  Expected expected;
  for (uint64_t key = 0; key < 100; ++key) {
    if (key % 4 == 0) expected[key] = 2;
    if (key % 2 == 1) expected[key] = 1;
  }
  {
    const auto store = OpenStore(dir.path());
    ExpectHolds(store.get(), expected);
    std::string value = "as it was";
    EXPECT_EQ(store->Read(KeyOf(2), &value).code(), Code::kNotFound);
    EXPECT_EQ(value, "as it was");
    // Once more with the index there.
    ASSERT_TRUE(store->Delete(KeyOf(1)).ok());
    expected.erase(1);
    PutWhole(store.get(), 2, 3);
    expected[2] = 3;
    ExpectHolds(store.get(), expected);
    for (uint64_t key = 0; key < 100; ++key) ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
    ExpectHolds(store.get(), {});
  }
  ExpectHolds(OpenStore(dir.path()).get(), {});
}

TEST(EndToEndTest, StoreKeepsItsGeometryWhateverTheNewDefaults) {
  TempDir dir;
  Expected expected;
  for (uint64_t i = 0; i < 500; ++i) expected[i * 0x9e3779b97f4a7c15] = 1;
  {
    const auto store = OpenStore(dir.path(), TinyOptions());
    for (const auto& [key, version] : expected) PutWhole(store.get(), key, version);
    EXPECT_EQ(store->Stats().bucket_count, TinyOptions().bucket_count);
  }
  const auto store = OpenStore(dir.path());
  EXPECT_EQ(store->Stats().bucket_count, TinyOptions().bucket_count);
  ExpectHolds(store.get(), expected);
  for (auto& [key, version] : expected) {
    version = 2;
    PutWhole(store.get(), key, version);
  }
  ExpectHolds(store.get(), expected);
}

TEST(EndToEndTest, FullBucketSaysSoAndKeepsWhatItHas) {
  TempDir dir;
  Options options = TinyOptions();
  options.bucket_capacity_records = 512;
  Expected expected;
  {
    const auto store = OpenStore(dir.path(), options);
    for (uint64_t key = 0; key < 512; ++key) {
      PutWhole(store.get(), key, 1);
      expected[key] = 1;
    }
    EXPECT_EQ(store->Write(KeyOf(512), ValueOf(512, 1)).code(), Code::kFull);
    EXPECT_EQ(store->Write(KeyOf(3), ValueOf(3, 2)).code(), Code::kFull);
    EXPECT_EQ(store->Delete(KeyOf(3)).code(), Code::kFull);
    // Its neighbours go on.
    const uint64_t elsewhere = 0x8000000000000000;
    PutWhole(store.get(), elsewhere, 1);
    expected[elsewhere] = 1;
    ExpectHolds(store.get(), expected);
  }
  const auto store = OpenStore(dir.path());
  EXPECT_EQ(store->Write(KeyOf(512), ValueOf(512, 1)).code(), Code::kFull);
  ExpectHolds(store.get(), expected);
}

TEST(EndToEndTest, EveryBackendAndASmallBudgetGiveTheSame) {
  TempDir dir;
  Expected expected;
  for (uint64_t i = 0; i < Sized(PartOf(10000, 3), 1000); ++i) expected[i * 0x9e3779b97f4a7c15] = 1;
  {
    const auto store = OpenStore(dir.path());
    for (const auto& [key, version] : expected) PutWhole(store.get(), key, version);
  }
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kPsync, IoBackend::kLibaio}) {
    for (const bool verify : {true, false}) {
      Options options;
      options.io_backend = backend;
      options.verify_checksums = verify;
      options.memory_budget_bytes = 16 << 20;
      options.build_thread_count = 3;
      ExpectHolds(OpenStore(dir.path(), options).get(), expected);
    }
  }
}

}  // namespace
}  // namespace engine_race::test
