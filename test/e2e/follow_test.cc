// Stores that follow a writer: what Refresh shows, with and without reuse of slots, and what is
// refused.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/reclaim_fixture.h"

namespace engine_race::test {
namespace {

Options Following(uint32_t value_bytes = 0) {
  Options options;
  options.follow = true;
  options.value_bytes = value_bytes;
  options.memory_budget_bytes = 64 << 20;
  return options;
}

class FollowTest : public ReclaimTest {
 protected:
  void Follow() {
    follower_ = OpenStore(dir_.path(), Following());
    ASSERT_NE(follower_, nullptr);
  }
  void Refresh() {
    const Status status = follower_->Refresh();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void ExpectFollowed() {
    ASSERT_NO_FATAL_FAILURE(Refresh());
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(follower_.get(), held_));
  }

  std::unique_ptr<Store> follower_;
};

class FollowSizesTest : public ::testing::TestWithParam<uint32_t> {};

// The first records are staged, and later ones are in the logs. None is seen before a Refresh.
TEST_P(FollowSizesTest, RefreshMovesOn) {
  const uint32_t size = GetParam();
  const TempDir dir(FastParent());
  Options options = TinyOptions();
  options.value_bytes = size;
  const auto writer = OpenStore(dir.path(), options);
  ASSERT_NE(writer, nullptr);
  const auto follower = OpenStore(dir.path(), Following(size));
  ASSERT_NE(follower, nullptr);
  std::string value;
  for (uint64_t i = 0; i < 700; ++i) {
    const std::string key = KeyOf(NthKey(i));
    EXPECT_EQ(follower->Read(key, &value).code(), Code::kNotFound) << i;
    ASSERT_TRUE(writer->Write(key, ValueOf(NthKey(i), i, size)).ok());
    EXPECT_EQ(follower->Read(key, &value).code(), Code::kNotFound) << i;
    const Status refreshed = follower->Refresh();
    ASSERT_TRUE(refreshed.ok()) << i << ": " << refreshed.ToString();
    ASSERT_TRUE(follower->Read(key, &value).ok()) << i;
    ASSERT_TRUE(value == ValueOf(NthKey(i), i, size)) << i;
  }
  uint64_t count = 0;
  const Status visited = follower->Range("", "", [&](std::string_view key, std::string_view found) {
    uint64_t version = 0;
    EXPECT_TRUE(ParseValue(DecodeKey(key.data()), found, &version, size));
    ++count;
  });
  EXPECT_TRUE(visited.ok()) << visited.ToString();
  EXPECT_EQ(count, 700u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, FollowSizesTest, ::testing::Values(512, 4096, 16384));

// The index of the follower is built while the writer has records in all places.
TEST_F(FollowTest, WhatWasThereIsSeenAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 1500, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(follower_.get(), held_));
}

TEST_F(FollowTest, OverwritesAndDeletions) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 500, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  ASSERT_NO_FATAL_FAILURE(WriteAll(100, 300, 2));
  for (uint64_t i = 200; i < 400; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i));
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  WriteBatch small;
  WriteBatch large;
  for (uint64_t i = 0; i < 6000; ++i) {
    WriteBatch& batch = i < 10 ? small : large;
    const uint64_t key = SpreadKey(i % 1000);
    ASSERT_TRUE(batch.Put(KeyOf(key), ValueOf(key, i)).ok());
    held_[key] = i;
  }
  ASSERT_TRUE(store_->Write(small).ok());
  ASSERT_NO_FATAL_FAILURE(Refresh());
  ASSERT_TRUE(store_->Write(large).ok());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
}

// Slots are freed, filled again, and records are moved, round after round. A follower that was
// asked nothing since has an index that leads to slots of other records.
TEST_F(FollowTest, SlotsThatAreUsedAgain) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 700, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  std::string value;
  for (uint64_t version = 2; version < 12; ++version) {
    // One key of four stays, so that rows with few live records are emptied.
    for (uint64_t i = 0; i < 700; ++i) {
      if (i % 4 == version % 4) continue;
      ASSERT_NO_FATAL_FAILURE(Write(i, version));
    }
    ASSERT_NO_FATAL_FAILURE(Compact());
    // Reads of a stale index: the old value while its slot holds it, else a newer one.
    for (uint64_t i = version % 3; version % 2 == 0 && i < 700; i += 3) {
      const uint64_t key = SpreadKey(i);
      const Status status = follower_->Read(KeyOf(key), &value);
      ASSERT_TRUE(status.ok()) << status.ToString();
      uint64_t found = 0;
      ASSERT_TRUE(ParseValue(key, value, &found)) << "key " << i << ", round " << version;
      ASSERT_LE(found, held_[key]);
      ASSERT_GE(found + 4, version);
    }
    if (version % 3 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  ASSERT_TRUE(HasRowFile());
}

// A scan of a stale index finds each key once, with its old value or a newer one.
TEST_F(FollowTest, RangesOverSlotsThatWereUsedAgain) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 700, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  for (uint64_t version = 2; version < 8; ++version) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, 700, version));
    ASSERT_NO_FATAL_FAILURE(Compact());
    const Versions seen = RangeOf(follower_.get(), "", "");
    ASSERT_EQ(seen.size(), 700u);
    for (const auto& [key, found] : seen) ASSERT_LE(found, version);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
}

// A view shows its state, or says that it cannot.
TEST_F(FollowTest, SnapshotsShowTheirStateOrFail) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 700, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  Snapshot snapshot;
  ASSERT_TRUE(follower_->GetSnapshot(&snapshot).ok());
  std::string value;
  uint64_t failure_count = 0;
  const auto look = [&] {
    for (uint64_t i = 0; i < 700; ++i) {
      const uint64_t key = SpreadKey(i);
      const Status status = follower_->Read(snapshot, KeyOf(key), &value);
      if (!status.ok()) {
        ASSERT_EQ(status.code(), Code::kIOError) << status.ToString();
        ++failure_count;
        continue;
      }
      uint64_t found = 0;
      ASSERT_TRUE(ParseValue(key, value, &found));
      ASSERT_EQ(found, 1u) << i;
    }
  };
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 300, 2));
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  ASSERT_NO_FATAL_FAILURE(look());
  EXPECT_EQ(failure_count, 0u) << "no slot was used again";
  for (uint64_t version = 3; version < 9; ++version) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, 700, version));
    ASSERT_NO_FATAL_FAILURE(Compact());
    ASSERT_NO_FATAL_FAILURE(look());
    if (version % 2 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
    }
    ASSERT_NO_FATAL_FAILURE(look());
  }
  EXPECT_GT(failure_count, 0u);
  Iterator iterator;
  IteratorOptions at_view;
  at_view.snapshot = &snapshot;
  ASSERT_TRUE(follower_->NewIterator(at_view, &iterator).ok());
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    uint64_t found = 0;
    const uint64_t key = DecodeKey(iterator.key().data());
    const std::string_view read = iterator.value();
    if (!iterator.Valid()) break;
    ASSERT_TRUE(ParseValue(key, read, &found));
    ASSERT_EQ(found, 1u);
  }
  EXPECT_EQ(iterator.status().code(), Code::kIOError) << iterator.status().ToString();
  ASSERT_TRUE(follower_->GetSnapshot(&snapshot).ok());
  ASSERT_TRUE(follower_->Read(snapshot, KeyOf(SpreadKey(0)), &value).ok());
}

// Whole rows are freed and filled again, and no record is moved. So the index of the follower hears
// of the new records alone, and its history leads to slots of others.
TEST_F(FollowTest, ViewsOfRowsThatWereFilledAgainFail) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(8));
  // In order: the first row has the first keys, and is filled again.
  for (uint64_t i = 0; i < 2 * kRowRecords; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  Snapshot snapshot;
  ASSERT_TRUE(follower_->GetSnapshot(&snapshot).ok());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 2 * kRowRecords, 2));
  ASSERT_NO_FATAL_FAILURE(Compact());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kRowRecords, 3));
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  std::string value;
  for (uint64_t i = 0; i < 2 * kRowRecords; ++i) {
    const Status status = follower_->Read(snapshot, KeyOf(SpreadKey(i)), &value);
    ASSERT_EQ(status.code(), Code::kIOError) << status.ToString();
  }
}

// The buckets are taken over one after another, by one thread, while others read. No reader finds a
// slot that was used again and takes it for damage.
TEST_F(FollowTest, ReadsBesideRefreshes) {
  constexpr uint64_t kReadKeys = 1000;
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kReadKeys, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  std::atomic<uint64_t> acknowledged{1};
  std::atomic<bool> stop{false};
  const auto write = [&] {
    for (uint64_t version = 2; version < 2 + Sized(60, 12); ++version) {
      // One key of four stays, so that rows get sparse and their records are moved.
      for (uint64_t i = 0; i < kReadKeys; ++i) {
        if (i % 4 == version % 4) continue;
        ASSERT_NO_FATAL_FAILURE(Write(i, version));
      }
      ASSERT_NO_FATAL_FAILURE(Compact());
      acknowledged.store(version);
    }
  };
  const auto look = [&](uint64_t n) {
    const uint64_t i = n * 7919 % kReadKeys;
    const uint64_t key = SpreadKey(i);
    std::string value;
    uint64_t version = 0;
    const Status status = follower_->Read(KeyOf(key), &value);
    ASSERT_TRUE(status.ok()) << "key " << i << ": " << status.ToString();
    ASSERT_TRUE(ParseValue(key, value, &version)) << "wrong bytes";
  };
  const auto walk = [&] {
    uint64_t count = 0;
    uint64_t version = 0;
    const Status status =
        follower_->Range("", "", [&](std::string_view key, std::string_view value) {
          count += ParseValue(DecodeKey(key.data()), value, &version) ? 1 : 0;
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(count, kReadKeys);
  };
  RunThreads(5, [&](uint32_t thread) {
    if (thread == 0) write();
    for (uint64_t n = thread; thread != 0 && !stop && !HasFatalFailure(); ++n) {
      if (thread == 1) Refresh();
      if (thread == 2) walk();
      if (thread > 2) look(n);
    }
    stop = true;
  });
  if (HasFatalFailure()) return;
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
}

// The counts of the writer cannot be read any more, and its slots were used again meanwhile.
TEST_F(FollowTest, ReadersOfLostCountsFailAtOnce) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(8));
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 2 * kRowRecords, 1));
  Options following = Following();
  // So that each read is one of a slot. No range leaves chunks behind either.
  following.hot_value_bytes = 0;
  follower_ = OpenStore(dir_.path(), following);
  ASSERT_NE(follower_, nullptr);
  std::string value;
  ASSERT_TRUE(follower_->Read(KeyOf(SpreadKey(0)), &value).ok());
  for (uint64_t version = 2; version < 10; ++version) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, 2 * kRowRecords, version));
    ASSERT_NO_FATAL_FAILURE(Compact());
  }
  store_.reset();
  const std::vector<char> zeros(options_.bucket_count * sizeof(format::BucketCounts));
  std::fstream counts(dir_.Join(format::kStagingCountsName),
                      std::ios::in | std::ios::out | std::ios::binary);
  counts.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush();
  ASSERT_TRUE(counts.good());
  const auto is_failure = [](const Status& status) {
    return status.code() == Code::kCorruption || status.code() == Code::kIOError;
  };
  uint64_t failure_count = 0;
  for (uint64_t i = 0; i < 2 * kRowRecords; i += 50) {
    const Status status = follower_->Read(KeyOf(SpreadKey(i)), &value);
    ASSERT_TRUE(status.ok() || is_failure(status)) << status.ToString();
    failure_count += status.ok() ? 0 : 1;
  }
  EXPECT_GT(failure_count, 0u);
  const Status ranged = follower_->Range("", "", [](std::string_view, std::string_view) {});
  EXPECT_TRUE(is_failure(ranged)) << ranged.ToString();
  Iterator iterator;
  ASSERT_TRUE(follower_->NewIterator({}, &iterator).ok());
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    value = iterator.value();
  }
  EXPECT_TRUE(is_failure(iterator.status())) << iterator.status().ToString();
}

TEST_F(FollowTest, WritersComeAndGo) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 300, 1));
  store_.reset();
  ASSERT_NO_FATAL_FAILURE(Follow());
  ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  for (uint64_t version = 2; version < 5; ++version) {
    // The follower holds no lock.
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, 300, version));
    if (version != 3) {
      ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
    }
    ASSERT_NO_FATAL_FAILURE(WriteAll(100, 200, version + 10));
    store_.reset();
    ASSERT_NO_FATAL_FAILURE(ExpectFollowed());
  }
}

TEST_F(FollowTest, RemovedStoresAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 10, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  store_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    std::filesystem::remove_all(entry.path());
  }
  const Status status = follower_->Refresh();
  EXPECT_EQ(status.code(), Code::kIOError) << status.ToString();
  EXPECT_NE(status.message().find("removed"), std::string::npos) << status.ToString();
  // Another store in its place is another one.
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(follower_->Refresh().code(), Code::kIOError);
}

TEST_F(FollowTest, Refusals) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 10, 1));
  EXPECT_EQ(store_->Refresh().code(), Code::kNotSupported);
  std::unique_ptr<Store> opened;
  Options cached = Following();
  cached.page_cache = true;
  EXPECT_EQ(Store::Open(cached, dir_.path(), &opened).code(), Code::kInvalidArgument);
  Options unverified = Following();
  unverified.verify_checksums = false;
  EXPECT_EQ(Store::Open(unverified, dir_.path(), &opened).code(), Code::kInvalidArgument);
  const TempDir empty;
  EXPECT_EQ(Store::Open(Following(), empty.path(), &opened).code(), Code::kNotFound);
  ASSERT_NO_FATAL_FAILURE(Follow());
  EXPECT_EQ(follower_->Write(KeyOf(1), ValueOf(1, 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(follower_->Sync().code(), Code::kInvalidArgument);
  EXPECT_EQ(follower_->Compact().code(), Code::kInvalidArgument);
  EXPECT_EQ(follower_->Checkpoint(empty.Join("copy")).code(), Code::kNotSupported);
  EXPECT_EQ(follower_->Backup(empty.Join("backup")).code(), Code::kNotSupported);
  // A second writer is refused as ever, and the follower does not matter to it.
  EXPECT_EQ(Store::Open(options_, dir_.path(), &opened).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::test
