// The store's calls that take snapshots: what they refuse, what they leave alone, what outlives
// what.
#include <gtest/gtest.h>

#include <stdexcept>

#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kHighKeys = 1000;

uint64_t HighKey(uint64_t i) { return (i + 1) << 53; }

class SnapshotCallsTest : public ::testing::Test {
 protected:
  SnapshotCallsTest() {
    options_ = TinyOptions();
    options_.log = lines_.Callback();
    store_ = OpenStore(dir_.path(), options_);
    Fill(store_.get(), 1);
  }

  static void Fill(Store* store, uint64_t version) {
    for (uint64_t i = 0; i < kHighKeys; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(HighKey(i)), ValueOf(HighKey(i), version)).ok());
    }
  }

  LogLines lines_;
  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<Store> store_;
};

TEST_F(SnapshotCallsTest, ReadAndRangeShowTheSnapshotsState) {
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  Fill(store_.get(), 2);
  ASSERT_TRUE(store_->Delete(KeyOf(HighKey(3))).ok());
  ASSERT_TRUE(store_->Write(KeyOf(5), ValueOf(5, 1)).ok());
  std::string value = "as it was";
  EXPECT_EQ(store_->Read(snapshot, KeyOf(5), &value).code(), Code::kNotFound);
  EXPECT_EQ(value, "as it was");
  ASSERT_TRUE(store_->Read(snapshot, KeyOf(HighKey(3)), &value).ok());
  EXPECT_EQ(value, ValueOf(HighKey(3), 1));
  uint64_t next = 100;
  const Status status = store_->Range(snapshot, KeyOf(HighKey(100)), KeyOf(HighKey(700)),
                                      [&](std::string_view key, std::string_view bytes) {
                                        EXPECT_EQ(key, KeyOf(HighKey(next)));
                                        EXPECT_EQ(bytes, ValueOf(HighKey(next), 1));
                                        ++next;
                                      });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(next, 700u);
}

TEST_F(SnapshotCallsTest, AVisitorMayThrowAndReleaseTheSnapshot) {
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  EXPECT_THROW((void)store_->Range(snapshot, "", "",
                                   [](std::string_view, std::string_view) {
                                     throw std::out_of_range("the visitor's own");
                                   }),
               std::out_of_range);
  EXPECT_EQ(store_->Stats().view_count, 1u);
  uint64_t visits = 0;
  const Status status =
      store_->Range(snapshot, "", "", [&](std::string_view key, std::string_view value) {
        if (visits++ == 10) {
          snapshot.Release();
          Fill(store_.get(), 2);
        }
        uint64_t version = 0;
        EXPECT_TRUE(ParseValue(DecodeKey(key.data()), value, &version));
        EXPECT_EQ(version, 1u);
      });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(visits, kHighKeys);
  EXPECT_EQ(store_->Stats().view_count, 0u);
}

TEST_F(SnapshotCallsTest, AnotherStoresSnapshotIsRefused) {
  TempDir other_dir(FastParent());
  const auto other = OpenStore(other_dir.path(), TinyOptions());
  Snapshot foreign;
  ASSERT_TRUE(other->GetSnapshot(&foreign).ok());
  const Snapshot nothing;
  for (const Snapshot* snapshot : {&std::as_const(foreign), &nothing}) {
    std::string value;
    EXPECT_EQ(store_->Read(*snapshot, KeyOf(HighKey(1)), &value).code(), Code::kInvalidArgument);
    EXPECT_EQ(store_->Range(*snapshot, "", "", [](auto, auto) { FAIL(); }).code(),
              Code::kInvalidArgument);
    IteratorOptions options;
    options.snapshot = snapshot;
    Iterator iterator;
    EXPECT_EQ(store_->NewIterator(options, &iterator).code(), Code::kInvalidArgument);
    ASSERT_TRUE(store_->NewIterator({}, &iterator).ok());
    iterator.SeekToFirst();
    EXPECT_EQ(iterator.RefreshKeepPosition(*snapshot).code(), Code::kInvalidArgument);
    EXPECT_EQ(iterator.key(), KeyOf(HighKey(0)));
  }
  // Each of them was told to the log.
  EXPECT_GE(lines_.lines().size(), 8u);
}

TEST_F(SnapshotCallsTest, WrongArgumentsAreRefused) {
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  std::string value;
  EXPECT_EQ(store_->GetSnapshot(nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->NewIterator({}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Read(snapshot, "short", &value).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Read(snapshot, KeyOf(1), nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Range(snapshot, "", "", nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Range(snapshot, "1", "", [](auto, auto) {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(lines_.lines().size(), 6u);
}

TEST_F(SnapshotCallsTest, SnapshotsAndIteratorsOutliveTheStore) {
  Snapshot snapshot;
  Iterator iterator;
  IteratorOptions options;
  options.prefetch_records = 64;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  ASSERT_TRUE(store_->NewIterator(options, &iterator).ok());
  iterator.SeekToFirst();
  EXPECT_EQ(iterator.value(), ValueOf(HighKey(0), 1));
  store_.reset();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(iterator.value().empty());
  iterator.SeekToLast();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_EQ(iterator.Refresh(snapshot).code(), Code::kInvalidArgument);
  // The same store, opened again, is another one.
  store_ = OpenStore(dir_.path(), options_);
  std::string value;
  EXPECT_EQ(store_->Read(snapshot, KeyOf(HighKey(1)), &value).code(), Code::kInvalidArgument);
  ASSERT_TRUE(store_->NewIterator(options, &iterator).ok());
  iterator.SeekToLast();
  EXPECT_EQ(iterator.value(), ValueOf(HighKey(kHighKeys - 1), 1));
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  EXPECT_TRUE(iterator.Refresh(snapshot).ok());
}

}  // namespace
}  // namespace engine_race::test
