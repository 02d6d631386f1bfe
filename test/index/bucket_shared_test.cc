// Sweeps of records that no view can see: in bounded steps, by a thread of their own.
#include "engine_race/index/bucket_shared.h"

#include <gtest/gtest.h>

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

  // Releases the view while no thread can be started.
  void ReleaseWithoutThread(View* view) {
    const RefuseMemory refuse(0);
    ViewRegistry::Release(view);
    EXPECT_TRUE(refuse.refused());
  }
  void RequestWithoutThread() {
    const RefuseMemory refuse(0);
    buckets_.shared().RequestSweep();
    EXPECT_TRUE(refuse.refused());
  }

  WatchedBuckets buckets_;
  KeyMap now_;
  uint32_t slot_ = kKeys;
};

TEST_F(BucketSharedTest, EverythingIsGivenBackWithoutAnotherCall) {
  for (int round = 0; round < 5; ++round) {
    View view = buckets_.Take();
    OverwriteAll();
    EXPECT_GT(buckets_.shared().bytes(), kBuckets * kKeys * sizeof(UndoRecord) / 2);
    const BucketShared::Work before = buckets_.shared().work();
    ViewRegistry::Release(&view);
    test::ExpectNothingPinned(buckets_.shared());
    const BucketShared::Work after = buckets_.shared().work();
    // No step looks at more than one part, and no part is looked at again and again.
    EXPECT_GE((after.sweep_steps - before.sweep_steps) * 2 * kSplit,
              after.swept_records - before.swept_records);
    EXPECT_LE(after.swept_records - before.swept_records, kBuckets * kKeys);
    ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
  }
}

// Records that another view needs are copied, but not by the thread that releases the oldest view.
TEST_F(BucketSharedTest, AReleaseCopiesNothing) {
  View first = buckets_.Take();
  OverwriteAll();
  // Starts the thread.
  ViewRegistry::Release(&first);
  test::ExpectNothingPinned(buckets_.shared());
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
  EXPECT_TRUE(test::Eventually([&] { return buckets_.shared().bytes() < before / 3; }));
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(younger.version, shown));
  ViewRegistry::Release(&younger);
  test::ExpectNothingPinned(buckets_.shared());
}

TEST_F(BucketSharedTest, WithoutAThreadACallTakesOneStep) {
  View view = buckets_.Take();
  OverwriteAll();
  uint64_t bytes = buckets_.shared().bytes();
  const uint64_t all = bytes;
  BucketShared::Work before = buckets_.shared().work();
  ReleaseWithoutThread(&view);
  uint64_t calls = 1;
  while (true) {
    const BucketShared::Work after = buckets_.shared().work();
    ASSERT_EQ(after.sweep_steps - before.sweep_steps, 1u);
    ASSERT_LE(after.swept_records - before.swept_records, kSplit);
    ASSERT_LE(bytes - buckets_.shared().bytes(), kSplit * sizeof(UndoRecord) * 2);
    bytes = buckets_.shared().bytes();
    before = after;
    if (bytes == 0) break;
    RequestWithoutThread();
    ASSERT_LT(++calls, 1000u);
  }
  EXPECT_GT(calls, all / (kSplit * sizeof(UndoRecord) * 2));
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
  // A release that can start the thread again ends the pass.
  View other = buckets_.Take();
  OverwriteAll();
  ViewRegistry::Release(&other);
  test::ExpectNothingPinned(buckets_.shared());
}

// A pass drops records by the views that were live when it began. It must not miss views that are
// taken during the pass.
TEST_F(BucketSharedTest, AViewThatIsTakenDuringAPassKeepsWhatItShows) {
  View old = buckets_.Take();
  OverwriteAll();
  ReleaseWithoutThread(&old);
  EXPECT_GT(buckets_.shared().bytes(), 0u) << "the pass is under way";
  View taken = buckets_.Take();
  const KeyMap shown = now_;
  OverwriteAll();
  for (int call = 0; call < 300; ++call) RequestWithoutThread();
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(taken.version, shown));
  ASSERT_NO_FATAL_FAILURE(ExpectAllShow(kLatestVersion, now_));
  ViewRegistry::Release(&taken);
  test::ExpectNothingPinned(buckets_.shared());
}

// Buckets are destroyed while a pass is under way. The sanitizers report if it still looks at them.
TEST(BucketSharedEndTest, AStoreEndsDuringAPass) {
  for (uint64_t round = 0; round < test::Sized(50, 10); ++round) {
    WatchedBuckets buckets(kBuckets, kSplit);
    for (size_t b = 0; b < kBuckets; ++b) buckets.Install({}, b);
    View view = buckets.Take();
    for (uint32_t slot = 0; slot < 2 * kKeys; ++slot) {
      for (size_t b = 0; b < kBuckets; ++b) buckets.Write(slot % kKeys, slot, false, b);
    }
    ViewRegistry::Release(&view);
  }
}

}  // namespace
}  // namespace engine_race
