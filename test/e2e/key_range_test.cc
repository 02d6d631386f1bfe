// Stores of a part of the key space: what they take, what they refuse, how they are opened again.
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <map>
#include <random>

#include "engine_race/log/geometry.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

Options Part(uint64_t first, uint64_t last) {
  Options options = TinyOptions();
  options.io_backend = IoBackend::kPsync;
  options.key_range = {first, last};
  return options;
}

Status Put(Store* store, uint64_t key, uint64_t version) {
  return store->Write(KeyOf(key), ValueOf(key, version));
}

// What every call says of a key that is none of the store's.
void ExpectRefused(Store* store, uint64_t key) {
  SCOPED_TRACE("key " + std::to_string(key));
  const uint64_t before = store->Stats().record_count;
  std::string value = "as it was";
  const Status written = Put(store, key, 1);
  EXPECT_EQ(written.code(), Code::kInvalidArgument);
  EXPECT_NE(written.message().find("outside of the store's key_range, "), std::string::npos)
      << written.message();
  EXPECT_EQ(store->Delete(KeyOf(key)).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Read(KeyOf(key), &value).code(), Code::kInvalidArgument);
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  EXPECT_EQ(store->Read(snapshot, KeyOf(key), &value).code(), Code::kInvalidArgument);
  bool called = false;
  const Status posted = store->ReadAsync(KeyOf(key), &value, [&](const Status&) { called = true; });
  EXPECT_EQ(posted.code(), Code::kInvalidArgument);
  EXPECT_FALSE(called);
  EXPECT_EQ(value, "as it was");
  EXPECT_EQ(store->Stats().record_count, before);
}

TEST(KeyRangeTest, KeysOutsideAreRefusedEverywhere) {
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), Part(1000, 2000));
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->Stats().key_range, (KeyRange{1000, 2000}));
  for (const uint64_t key : {uint64_t{0}, uint64_t{999}, uint64_t{2001}, kMax}) {
    ExpectRefused(store.get(), key);
  }
  for (const uint64_t key : {1000, 1500, 2000}) EXPECT_TRUE(Put(store.get(), key, 7).ok()) << key;
  ExpectHolds(store.get(), {{1000, 7}, {1500, 7}, {2000, 7}});
}

TEST(KeyRangeTest, MultiReadRefusesTheKeyAlone) {
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), Part(1000, 2000));
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(Put(store.get(), 1000, 3).ok());
  ASSERT_TRUE(Put(store.get(), 2000, 4).ok());
  const std::vector<std::string> bytes = {KeyOf(999),  KeyOf(1000), "short",
                                          KeyOf(2001), KeyOf(2000), KeyOf(1001)};
  const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  std::vector<std::string> values(keys.size(), "as it was");
  std::vector<Status> statuses(keys.size());
  ASSERT_TRUE(store->MultiRead(keys, values, statuses).ok());
  const Code codes[] = {Code::kInvalidArgument, Code::kOk, Code::kInvalidArgument,
                        Code::kInvalidArgument, Code::kOk, Code::kNotFound};
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(statuses[i].code(), codes[i]) << i;
    EXPECT_EQ(values[i] == "as it was", !statuses[i].ok()) << i;
  }
  EXPECT_EQ(values[1], ValueOf(1000, 3));
  EXPECT_EQ(values[4], ValueOf(2000, 4));
}

TEST(KeyRangeTest, ReadAsyncReadsTheEnds) {
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), Part(kMax - 5, kMax));
  ASSERT_NE(store, nullptr);
  for (const uint64_t key : {kMax - 5, kMax}) {
    ASSERT_TRUE(Put(store.get(), key, 9).ok());
    std::string value;
    std::promise<Status> done;
    ASSERT_TRUE(
        store->ReadAsync(KeyOf(key), &value, [&](const Status& s) { done.set_value(s); }).ok());
    EXPECT_TRUE(done.get_future().get().ok());
    EXPECT_EQ(value, ValueOf(key, 9));
  }
}

// The bounds of a range, and the keys that it must visit of those given.
void ExpectClipped(Store* store, const std::map<uint64_t, uint64_t>& model,
                   std::optional<uint64_t> lower, std::optional<uint64_t> upper) {
  const Versions seen = RangeOf(store, lower ? KeyOf(*lower) : "", upper ? KeyOf(*upper) : "");
  Versions wanted;
  for (const auto& [key, version] : model) {
    if ((!lower || key >= *lower) && (!upper || key < *upper)) wanted.emplace_back(key, version);
  }
  EXPECT_EQ(seen, wanted) << (lower ? std::to_string(*lower) : "open") << " to "
                          << (upper ? std::to_string(*upper) : "open");
}

void ExpectBoundsClipped(const KeyRange& keys, const std::vector<uint64_t>& held) {
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), Part(keys.first, keys.last));
  ASSERT_NE(store, nullptr);
  std::map<uint64_t, uint64_t> model;
  for (const uint64_t key : held) {
    model[key] = key % 97 + 1;
    ASSERT_TRUE(Put(store.get(), key, model[key]).ok());
  }
  std::vector<uint64_t> bounds = {0, 1, kMax, kMax - 1, keys.first, keys.last, keys.first + 1};
  bounds.insert(bounds.end(), {keys.first - 1, keys.last + 1, keys.last - 1});
  bounds.insert(bounds.end(), held.begin(), held.end());
  for (const uint64_t lower : bounds) {
    ExpectClipped(store.get(), model, lower, std::nullopt);
    ExpectClipped(store.get(), model, std::nullopt, lower);
    for (const uint64_t upper : bounds) ExpectClipped(store.get(), model, lower, upper);
  }
  ExpectClipped(store.get(), model, std::nullopt, std::nullopt);
}

TEST(KeyRangeTest, BoundsOfRangeAreClipped) {
  ExpectBoundsClipped({1000, 2000}, {1000, 1400, 1999, 2000});
  ExpectBoundsClipped({0, 10}, {0, 10});
  ExpectBoundsClipped({kMax - 10, kMax}, {kMax - 10, kMax});
  ExpectBoundsClipped({1, kMax - 1}, {1, kMax / 2, kMax - 1});
  ExpectBoundsClipped({5, 5}, {5});
  ExpectBoundsClipped({5, 5}, {});
}

TEST(KeyRangeTest, SeeksAreClipped) {
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), Part(1000, 2000));
  ASSERT_NE(store, nullptr);
  for (const uint64_t key : {1000, 1500, 2000}) ASSERT_TRUE(Put(store.get(), key, 1).ok());
  Iterator iterator;
  ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
  const auto at = [&]() -> uint64_t {
    EXPECT_TRUE(iterator.status().ok()) << iterator.status().ToString();
    return iterator.Valid() ? DecodeKey(iterator.key().data()) : 0;
  };
  iterator.Seek(KeyOf(0));
  EXPECT_EQ(at(), 1000u);
  iterator.Seek(KeyOf(1501));
  EXPECT_EQ(at(), 2000u);
  iterator.Next();
  EXPECT_EQ(at(), 0u);
  iterator.Seek(KeyOf(2001));
  EXPECT_EQ(at(), 0u);
  iterator.Seek(KeyOf(kMax));
  EXPECT_EQ(at(), 0u);
  iterator.SeekForPrev(KeyOf(kMax));
  EXPECT_EQ(at(), 2000u);
  iterator.SeekForPrev(KeyOf(999));
  EXPECT_EQ(at(), 0u);
  iterator.SeekForPrev(KeyOf(0));
  EXPECT_EQ(at(), 0u);
  iterator.SeekToFirst();
  EXPECT_EQ(at(), 1000u);
  iterator.Prev();
  EXPECT_EQ(at(), 0u);
  iterator.SeekToLast();
  EXPECT_EQ(at(), 2000u);
  const std::string low = KeyOf(7);
  const std::string high = KeyOf(1500);
  IteratorOptions bounded;
  bounded.lower_bound = low;
  bounded.upper_bound = high;
  ASSERT_TRUE(store->NewIterator(bounded, &iterator).ok());
  iterator.SeekToLast();
  EXPECT_EQ(at(), 1000u);
  const std::string beyond = KeyOf(5000);
  bounded.lower_bound = beyond;
  bounded.upper_bound = {};
  ASSERT_TRUE(store->NewIterator(bounded, &iterator).ok());
  iterator.SeekToFirst();
  EXPECT_EQ(at(), 0u);
}

TEST(KeyRangeTest, OneKeyIsAStore) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{1} << 63, kMax}) {
    const TempDir dir(FastParent());
    for (uint64_t round = 1; round <= 3; ++round) {
      const auto store = OpenStore(dir.path(), Part(key, key));
      ASSERT_NE(store, nullptr);
      // More than one group.
      for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(Put(store.get(), key, round * 100 + i).ok());
      ExpectHolds(store.get(), {{key, round * 100 + 19}});
    }
  }
}

TEST(KeyRangeTest, MoreBucketsThanKeys) {
  for (const uint64_t first : {uint64_t{0}, kMax / 3, kMax - 40}) {
    Options options = Part(first, first + 40);
    options.bucket_count = 1024;
    options.bucket_capacity_records = 512;
    const TempDir dir(FastParent());
    std::map<uint64_t, uint64_t> model;
    for (uint64_t round = 1; round <= 2; ++round) {
      const auto store = OpenStore(dir.path(), options);
      ASSERT_NE(store, nullptr);
      for (uint64_t i = 0; i <= 40; i += round) {
        model[first + i] = round;
        ASSERT_TRUE(Put(store.get(), first + i, round).ok());
      }
      ExpectHolds(store.get(), model);
    }
  }
}

TEST(KeyRangeTest, ReopeningTakesTheManifestsRange) {
  const TempDir dir(FastParent());
  { ASSERT_TRUE(Put(OpenStore(dir.path(), Part(10, 20)).get(), 15, 1).ok()); }
  {
    const auto store = OpenStore(dir.path());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->Stats().key_range, (KeyRange{10, 20}));
    EXPECT_EQ(Put(store.get(), 21, 1).code(), Code::kInvalidArgument);
    ExpectHolds(store.get(), {{15, 1}});
  }
  const KeyRange others[] = {{10, 21}, {9, 20}, {11, 20}, {10, 19}, {0, kMax}};
  for (const KeyRange& other : others) {
    std::unique_ptr<Store> store;
    const Status status = Store::Open(AsRun(Part(other.first, other.last)), dir.path(), &store);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_NE(status.message().find("that of the store is 10-20"), std::string::npos)
        << status.message();
  }
  const auto store = OpenStore(dir.path(), Part(10, 20));
  ExpectHolds(store.get(), {{15, 1}});
}

TEST(KeyRangeTest, AStoreOfAllKeysStaysOne) {
  const TempDir dir(FastParent());
  { ASSERT_TRUE(Put(OpenStore(dir.path(), TinyOptions()).get(), kMax, 1).ok()); }
  std::unique_ptr<Store> store;
  EXPECT_EQ(Store::Open(AsRun(Part(0, kMax - 1)), dir.path(), &store).code(),
            Code::kInvalidArgument);
  ExpectHolds(OpenStore(dir.path(), Part(0, kMax)).get(), {{kMax, 1}});
}

TEST(KeyRangeTest, AnImpossibleRangeMakesNothing) {
  const TempDir dir(FastParent());
  std::unique_ptr<Store> store;
  EXPECT_EQ(Store::Open(AsRun(Part(2, 1)), dir.Join("store"), &store).code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(dir.Join("store")));
}

TEST(KeyRangeTest, RecordsOutliveAKill) {
  const TempDir dir(FastParent());
  const Options options = Part(kMax - 1000, kMax);
  constexpr uint64_t kCount = 700;
  const int exit_code = InChild([&] {
    const auto store = OpenStore(dir.path(), options);
    for (uint64_t i = 0; i < kCount; ++i) {
      if (!Put(store.get(), kMax - i, i + 1).ok()) return 1;
    }
    ::kill(::getpid(), SIGKILL);
    return 2;
  });
  ASSERT_EQ(exit_code, -1 - SIGKILL);
  std::map<uint64_t, uint64_t> model;
  for (uint64_t i = 0; i < kCount; ++i) model[kMax - i] = i + 1;
  ExpectHolds(OpenStore(dir.path()).get(), model);
  VerifyReport report;
  EXPECT_TRUE(Store::Verify(options, dir.path(), &report, {}).ok());
  EXPECT_EQ(report.record_count, kCount);
  EXPECT_EQ(Store::Verify(Part(0, 5), dir.path(), &report, {}).code(), Code::kInvalidArgument);
}

TEST(KeyRangeTest, ACopyHasTheRange) {
  const TempDir dir(FastParent());
  std::map<uint64_t, uint64_t> model;
  {
    const auto store = OpenStore(dir.Join("a"), Part(kMax / 3, kMax / 2));
    ASSERT_NE(store, nullptr);
    for (uint64_t i = 0; i < 300; ++i) {
      const uint64_t key = kMax / 3 + i * (kMax / 6 / 300);
      model[key] = i + 1;
      ASSERT_TRUE(Put(store.get(), key, i + 1).ok());
    }
  }
  VerifyReport report;
  Status copied = Store::Copy(Part(0, 5), dir.Join("a"), dir.Join("b"), &report, {});
  EXPECT_EQ(copied.code(), Code::kInvalidArgument) << copied.ToString();
  EXPECT_FALSE(std::filesystem::exists(dir.Join("b")));
  copied = Store::Copy({}, dir.Join("a"), dir.Join("b"), &report, {});
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  EXPECT_EQ(report.record_count, 300u);
  const auto store = OpenStore(dir.Join("b"));
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->Stats().key_range, (KeyRange{kMax / 3, kMax / 2}));
  ExpectHolds(store.get(), model);
}

// The four quarters together hold what one store of all keys holds, in the same order.
TEST(KeyRangeTest, QuartersAreTheWhole) {
  const TempDir dir(FastParent());
  std::vector<std::unique_ptr<Store>> quarters;
  for (uint64_t i = 0; i < 4; ++i) {
    quarters.push_back(
        OpenStore(dir.Join(std::to_string(i)), Part(i << 62, (i << 62) + (kMax >> 2))));
    ASSERT_NE(quarters.back(), nullptr);
  }
  const auto whole = OpenStore(dir.Join("whole"), TinyOptions());
  ASSERT_NE(whole, nullptr);
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t key = i * 0x9e3779b97f4a7c15;
    ASSERT_TRUE(Put(quarters[key >> 62].get(), key, i + 1).ok());
    ASSERT_TRUE(Put(whole.get(), key, i + 1).ok());
  }
  Versions seen;
  for (const auto& quarter : quarters) {
    const Versions own = RangeOf(quarter.get(), "", "");
    seen.insert(seen.end(), own.begin(), own.end());
  }
  EXPECT_TRUE(seen == RangeOf(whole.get(), "", ""));
}

}  // namespace
}  // namespace engine_race::test
