// Sweeps of records that no view can see.
#include "engine_race/index/bucket_shared.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "test/index/refused_memory.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::KeyMap;
using test::RefuseMemory;
using test::View;
using test::WatchedBuckets;

constexpr size_t kBuckets = 4;
constexpr size_t kSplit = 200;
constexpr uint32_t kKeys = 1000;

// Some buckets of several parts each.
class BucketSharedTest : public ::testing::Test {
 protected:
  BucketSharedTest() : buckets_(kBuckets, kSplit) {
    std::vector<KeyRecord> installed;
    for (uint32_t key = 0; key < kKeys; ++key) {
      installed.push_back(test::RecordInSlot(key, key));
      now_[key] = ValueRef(key, key & 0xffff, false);
    }
    for (size_t b = 0; b < kBuckets; ++b) buckets_.Install(installed, b);
  }

  void OverwriteAll() {
    for (uint32_t key = 0; key < kKeys; ++key) {
      for (size_t b = 0; b < kBuckets; ++b) buckets_.Write(key, slot_, false, b);
      now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
      ++slot_;
    }
  }
  void ExpectAllShow(uint64_t version, const KeyMap& shown) {
    for (size_t b = 0; b < kBuckets; ++b) {
      ASSERT_NO_FATAL_FAILURE(test::ExpectShows(buckets_.bucket(b), version, shown, kKeys));
    }
  }

  WatchedBuckets buckets_;
  KeyMap now_;
  uint32_t slot_ = kKeys;
};

TEST_F(BucketSharedTest, OneSweepGivesEverythingBack) {
  for (int round = 0; round < 5; ++round) {
    View view = buckets_.Take();
    OverwriteAll();
    EXPECT_GT(buckets_.shared().bytes(), kBuckets * kKeys * sizeof(UndoRecord) / 2);
    const uint64_t before = buckets_.shared().work().swept_records;
    ViewRegistry::Release(&view);
    EXPECT_TRUE(buckets_.shared().sweep_is_due());
    test::ExpectNothingPinned(&buckets_.shared());
    EXPECT_FALSE(buckets_.shared().sweep_is_due());
    // No part is looked at again.
    EXPECT_LE(buckets_.shared().work().swept_records - before, kBuckets * kKeys);
    ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
  }
}

// Records that another view needs are copied, but not by the thread that releases the oldest view.
TEST_F(BucketSharedTest, AReleaseCopiesNothing) {
  View old = buckets_.Take();
  OverwriteAll();
  View younger = buckets_.Take();
  const KeyMap shown = now_;
  for (uint32_t key = 0; key < kKeys; key += 7) {
    for (size_t b = 0; b < kBuckets; ++b) buckets_.Write(key, slot_, false, b);
    now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
    ++slot_;
  }
  const uint64_t before = buckets_.shared().bytes();
  {
    const RefuseMemory refuse(0);
    ViewRegistry::Release(&old);
    EXPECT_FALSE(refuse.refused());
  }
  EXPECT_EQ(buckets_.shared().bytes(), before);
  buckets_.shared().Sweep(test::kNever);
  EXPECT_LT(buckets_.shared().bytes(), before / 3);
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(younger.version, shown));
  ViewRegistry::Release(&younger);
  test::ExpectNothingPinned(&buckets_.shared());
}

// So that a store which is closed waits for one part at most.
TEST_F(BucketSharedTest, ASweepAsksBeforeEachPart) {
  View view = buckets_.Take();
  OverwriteAll();
  ViewRegistry::Release(&view);
  uint64_t seen = buckets_.shared().work().swept_records;
  uint64_t most = 0;
  buckets_.shared().Sweep([&] {
    const uint64_t now = buckets_.shared().work().swept_records;
    most = std::max(most, now - seen);
    seen = now;
    return false;
  });
  EXPECT_GT(most, 0U);
  EXPECT_LE(most, kSplit);
  EXPECT_EQ(buckets_.shared().bytes(), 0U);
}

TEST_F(BucketSharedTest, ASweepStops) {
  View view = buckets_.Take();
  OverwriteAll();
  ViewRegistry::Release(&view);
  int left = 3;
  buckets_.shared().Sweep([&] { return left-- == 0; });
  EXPECT_EQ(left, -1);
  EXPECT_GT(buckets_.shared().bytes(), 0U);
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
}

// A sweep drops records by the views that were live when it began. It must not miss views that are
// taken meanwhile.
TEST_F(BucketSharedTest, AViewThatIsTakenDuringASweepKeepsWhatItShows) {
  View old = buckets_.Take();
  OverwriteAll();
  ViewRegistry::Release(&old);
  View taken;
  KeyMap shown;
  int parts = 0;
  buckets_.shared().Sweep([&] {
    if (++parts == 3) {
      taken = buckets_.Take();
      shown = now_;
      OverwriteAll();
    }
    return false;
  });
  EXPECT_GT(parts, 3);
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(taken.version, shown));
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
  ViewRegistry::Release(&taken);
  test::ExpectNothingPinned(&buckets_.shared());
}

}  // namespace
}  // namespace engine_race
