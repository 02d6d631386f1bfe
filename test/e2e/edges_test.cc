// The edges of a bucket and of what a process is allowed: the slots around 2^16, the last record
// that fits, partial groups of every length, read-only directories and few file descriptors.
//
// Others stand where their subject is: full disks, file sizes and 1 KiB blocks in
// full_disk_test.cc, two openers in engine_open_test.cc, keys of all zeros and all ones in
// engine_contract_test.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "test/e2e/engine_fixture.h"
#include "test/e2e/store_image.h"

namespace engine_race::test {
namespace {

Options OneBucket(uint64_t capacity_records) {
  Options options = TinyOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  options.bucket_capacity_records = capacity_records;
  return options;
}

// In the order of slots, not of keys.
Status PutNth(Store* store, uint64_t i, uint64_t version = 1) {
  return store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version));
}

// Closed and opened with 65 535, 65 536 and 65 537 records, and with a few more.
TEST(EdgesTest, SlotsAroundSixteenBits) {
  constexpr uint64_t kFirst = 65535;
  constexpr uint64_t kLast = 65540;
  TempDir dir{FastParent()};
  Options options;
  options.bucket_count = 1;
  options.file_count = 1;
  {
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    std::string value(kValueBytes, '\0');
    for (uint64_t i = 0; i < kFirst; ++i) {
      FillValue(NthKey(i), 1, value.data());
      ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), value).ok());
    }
  }
  for (uint64_t count = kFirst; count < kLast; ++count) {
    SCOPED_TRACE(count);
    const auto store = OpenStore(dir.path());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->Stats().record_count, count);
    // Slots that a number of 16 bits would mistake for one another.
    for (const uint64_t i : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, count - 65535,
                             count - 3, count - 2, count - 1}) {
      EXPECT_EQ(VersionOf(store.get(), NthKey(i)), 1u) << "slot " << i;
    }
    EXPECT_EQ(VersionOf(store.get(), NthKey(count)), 0u);
    ASSERT_TRUE(PutNth(store.get(), count).ok());
    EXPECT_EQ(VersionOf(store.get(), NthKey(count)), 1u);
  }
  std::map<uint64_t, uint64_t> expected;
  for (uint64_t i = 0; i < kLast; ++i) expected[NthKey(i)] = 1;
  const Versions wanted(expected.begin(), expected.end());
  EXPECT_TRUE(RangeOf(OpenStore(dir.path()).get(), "", "") == wanted) << "Range differs";
}

TEST(EdgesTest, LastRecordOfABucket) {
  constexpr uint64_t kCapacity = 256;
  for (const uint64_t at_first : {kCapacity - 1, kCapacity}) {
    SCOPED_TRACE(at_first);
    TempDir dir{FastParent()};
    std::map<uint64_t, uint64_t> expected;
    uint64_t next = 0;
    {
      const auto store = OpenStore(dir.path(), OneBucket(kCapacity));
      ASSERT_NE(store, nullptr);
      for (; next < at_first; ++next) {
        ASSERT_TRUE(PutNth(store.get(), next).ok());
        expected[NthKey(next)] = 1;
      }
    }
    for (int opening = 0; opening < 2; ++opening) {
      const auto store = OpenStore(dir.path());
      ASSERT_NE(store, nullptr);
      ExpectHolds(store.get(), expected);
      for (; next < kCapacity; ++next) {
        ASSERT_TRUE(PutNth(store.get(), next).ok());
        expected[NthKey(next)] = 1;
      }
      EXPECT_EQ(PutNth(store.get(), next).code(), Code::kFull);
      EXPECT_EQ(PutNth(store.get(), 0, 2).code(), Code::kFull);
      EXPECT_EQ(store->Delete(KeyOf(NthKey(0))).code(), Code::kFull);
      EXPECT_EQ(store->Stats().record_count, kCapacity);
      EXPECT_TRUE(store->Sync().ok());
      ExpectHolds(store.get(), expected);
    }
  }
}

// Segments lie side by side: what is behind that of a full bucket is another bucket's.
TEST(EdgesTest, AnEmptyBucketBetweenFullOnes) {
  constexpr uint64_t kCapacity = 256;
  Options options = OneBucket(kCapacity);
  options.bucket_count = 4;
  const Geometry geometry = GeometryFrom(options);
  TempDir dir{FastParent()};
  std::map<uint64_t, uint64_t> expected;
  {
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    for (const uint32_t bucket : {0, 2}) {
      for (uint64_t i = 0; i < kCapacity; ++i) {
        const uint64_t key = bucket == 0 ? geometry.LastKeyOf(0) - i : geometry.FirstKeyOf(2) + i;
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
        expected[key] = 1;
      }
      EXPECT_EQ(store->Delete(KeyOf(geometry.FirstKeyOf(bucket))).code(), Code::kFull);
    }
    ExpectHolds(store.get(), expected);
  }
  const auto store = OpenStore(dir.path());
  ASSERT_NE(store, nullptr);
  ExpectHolds(store.get(), expected);
  EXPECT_TRUE(
      RangeOf(store.get(), KeyOf(geometry.FirstKeyOf(1)), KeyOf(geometry.LastKeyOf(1))).empty());
  for (const uint64_t key : {geometry.FirstKeyOf(1), geometry.LastKeyOf(1)}) {
    EXPECT_EQ(VersionOf(store.get(), key), 0u);
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 2)).ok());
    expected[key] = 2;
  }
  ExpectHolds(store.get(), expected);
}

// A group is left with every number of records in it, synced or not, and goes on from there.
TEST(EdgesTest, ReopenedThenWrittenInEveryPartOfAGroup) {
  Options options = OneBucket(4096);
  options.value_group_bytes = 16384;
  const uint64_t most = 2 * options.value_group_bytes / kValueBytes + 1;
  for (uint64_t count = 0; count <= most; ++count) {
    for (const bool synced : {false, true}) {
      SCOPED_TRACE(std::to_string(count) + (synced ? ", synced" : ""));
      TempDir dir{FastParent()};
      std::map<uint64_t, uint64_t> expected;
      const auto write = [&](Store* store, uint64_t i) {
        ASSERT_TRUE(PutNth(store, i, i + 1).ok());
        expected[NthKey(i)] = i + 1;
      };
      const auto sync = [synced](Store* store) {
        if (synced) {
          EXPECT_TRUE(store->Sync().ok());
        }
      };
      {
        const auto store = OpenStore(dir.path(), options);
        for (uint64_t i = 0; i < count; ++i) write(store.get(), i);
        sync(store.get());
      }
      {
        const auto store = OpenStore(dir.path());
        write(store.get(), count);
        sync(store.get());
        write(store.get(), count + 1);
        ExpectHolds(store.get(), expected);
      }
      ExpectHolds(OpenStore(dir.path()).get(), expected);
    }
  }
}

class EdgesOfAProcessTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kCount = 100;

  void SetUp() override {
    Options options = TinyOptions();
    options.bucket_capacity_records = 1024;
    const auto store = OpenStore(store_, options);
    ASSERT_NE(store, nullptr);
    for (uint64_t i = 0; i < kCount; ++i) ASSERT_TRUE(PutNth(store.get(), i).ok());
  }

  void ExpectUnharmed() {
    std::map<uint64_t, uint64_t> expected;
    for (uint64_t i = 0; i < kCount; ++i) expected[NthKey(i)] = 1;
    ExpectHolds(OpenStore(store_).get(), expected);
  }

  TempDir dir_;
  const std::string store_ = dir_.Join("store");
};

// 0 when opening `dir` was refused, with kIOError and a word about why.
int RefusedClearly(const std::string& dir) {
  LogLines log;
  Options options;
  options.log = log.Callback();
  std::unique_ptr<Store> store;
  const Status status = Store::Open(AsRun(options), dir, &store);
  if (status.code() != Code::kIOError || status.message().empty()) return 1;
  return log.lines().empty() ? 2 : 0;
}

TEST_F(EdgesOfAProcessTest, ReadOnlyMount) {
  const StoreImage before = StoreImage::Load(store_);
  const int refused = OnReadOnlyMount(store_, [&] { return RefusedClearly(store_); });
  if (refused == kMayNotMount) {
    // Without that right the directory alone is made read-only, and its files.
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    for (const auto& [name, node] : before.nodes) ::chmod((store_ + "/" + name).c_str(), 0444);
    ASSERT_EQ(::chmod(store_.c_str(), 0555), 0);
    EXPECT_EQ(InChild([&] { return DropRights() ? RefusedClearly(store_) : 10; }), 0);
    ASSERT_EQ(::chmod(store_.c_str(), 0755), 0);
    for (const auto& [name, node] : before.nodes) ::chmod((store_ + "/" + name).c_str(), 0644);
  } else {
    EXPECT_EQ(refused, 0);
  }
  EXPECT_TRUE(StoreImage::Load(store_) == before) << "a read-only store has changed";
  ExpectUnharmed();
}

bool LimitFds(rlim_t count) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = count;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

size_t OpenFdCount() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

// From none at all to enough: each number of descriptors ends in a clear refusal or in work done.
int WorkWithFewFds(const std::string& dir, bool make) {
  const size_t fd_count = OpenFdCount();
  uint64_t refused_count = 0;
  uint64_t opened_count = 0;
  for (rlim_t limit = 1; opened_count < 5; ++limit) {
    if (limit > 200) return 1;
    const std::string store_dir = make ? dir + std::to_string(limit) : dir;
    if (!LimitFds(limit)) return 2;
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(TinyOptions()), store_dir, &store);
    Status written;
    if (opened.ok()) {
      ++opened_count;
      written = PutNth(store.get(), 0);
    } else {
      ++refused_count;
    }
    store.reset();
    if (!LimitFds(1024)) return 3;
    if (!opened.ok() && (opened.code() != Code::kIOError || opened.message().empty())) return 4;
    if (!written.ok() && (written.code() != Code::kIOError || written.message().empty())) return 5;
    if (OpenFdCount() != fd_count) return 6;
    // What was refused half-way is no obstacle.
    if (!Store::Open(AsRun(TinyOptions()), store_dir, &store).ok()) return 7;
    std::string value;
    const Status read = store->Read(KeyOf(NthKey(0)), &value);
    const bool must_be_there = !make || (opened.ok() && written.ok());
    const bool right = read.ok() ? value == ValueOf(NthKey(0), 1)
                                 : !must_be_there && read.code() == Code::kNotFound;
    if (!right) return 8;
  }
  return refused_count > 0 ? 0 : 9;
}

TEST_F(EdgesOfAProcessTest, FewFileDescriptorsToOpenAStore) {
  EXPECT_EQ(InChild([&] { return WorkWithFewFds(store_, /*make=*/false); }), 0);
  ExpectUnharmed();
}

TEST_F(EdgesOfAProcessTest, FewFileDescriptorsToMakeAStore) {
  EXPECT_EQ(InChild([&] { return WorkWithFewFds(dir_.Join("new"), /*make=*/true); }), 0);
}

// An open store that runs out of them: what needs another says so, and goes on afterwards.
TEST_F(EdgesOfAProcessTest, NoFileDescriptorsLeftForAnOpenStore) {
  EXPECT_EQ(InChild([&] {
              std::unique_ptr<Store> store;
              if (!Store::Open(AsRun(Options()), store_, &store).ok()) return 1;
              if (!LimitFds(1)) return 2;
              const auto right_or_clear = [](const Status& status) {
                return status.ok() || status.code() == Code::kIOError ||
                       status.code() == Code::kOutOfMemory;
              };
              std::string value;
              if (!right_or_clear(store->Read(KeyOf(NthKey(1)), &value))) return 3;
              const auto ignore = [](std::string_view, std::string_view) {};
              if (!right_or_clear(store->Range({}, {}, ignore))) return 4;
              if (!LimitFds(1024)) return 5;
              for (uint64_t i = 0; i < kCount; ++i) {
                if (!store->Read(KeyOf(NthKey(i)), &value).ok()) return 6;
                if (value != ValueOf(NthKey(i), 1)) return 7;
              }
              return store->Range({}, {}, ignore).ok() ? 0 : 8;
            }),
            0);
  ExpectUnharmed();
}

}  // namespace
}  // namespace engine_race::test
