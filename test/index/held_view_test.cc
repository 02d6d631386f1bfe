// Views that are held during very many writes: the memory that they pin, and the records that one
// write has to copy for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::KeyMap;
using test::View;
using test::WatchedBuckets;

constexpr uint32_t kSplit = 4096;
// The most that a merge may write: a part of the largest size, and two records for each new one.
constexpr uint64_t kMostCopied = kSplit + 2 * 1024;

// A bucket, a map of its records, and the most records that one write has copied.
class Churned {
 public:
  explicit Churned(uint32_t installed_count) : buckets_(1, kSplit) {
    std::vector<KeyRecord> installed;
    for (uint32_t i = 0; i < installed_count; ++i) {
      installed.push_back(test::RecordInSlot(KeyOf(i), i));
      now_[KeyOf(i)] = ValueRef(i, i & 0xffff, false);
    }
    buckets_.Install(installed);
    slot_ = installed_count;
  }

  static uint64_t KeyOf(uint64_t i) { return i * 1000; }

  void Write(uint64_t key, bool tombstone) {
    const uint64_t before = buckets_.shared().work().merged_records;
    buckets_.Write(key, slot_, tombstone);
    most_copied_ = std::max(most_copied_, buckets_.shared().work().merged_records - before);
    if (tombstone) {
      now_.erase(key);
    } else {
      now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
    }
    ++slot_;
  }

  void ExpectShows(uint64_t version, const KeyMap& shown) {
    ASSERT_NO_FATAL_FAILURE(test::ExpectShows(buckets_.bucket(), version, shown, 0));
    for (const auto& [key, ref] : shown) {
      ValueRef found;
      ASSERT_EQ(buckets_.bucket().Find(key, &found, nullptr, version), Code::kOk) << key;
      ASSERT_TRUE(test::SameRef(found, ref)) << key;
      ASSERT_EQ(buckets_.bucket().Find(key + 1, &found, nullptr, version), Code::kNotFound);
    }
  }
  void ExpectShowsNow() { ExpectShows(kLatestVersion, now_); }

  WatchedBuckets& buckets() { return buckets_; }
  const KeyMap& now() const { return now_; }
  uint64_t pinned_bytes() { return buckets_.shared().bytes(); }
  uint64_t most_copied() const { return most_copied_; }

 private:
  WatchedBuckets buckets_;
  KeyMap now_;
  uint32_t slot_ = 0;
  uint64_t most_copied_ = 0;
};

// The memory of the undo records of `count` keys, with the overhead of arrays and parts.
uint64_t UndoBytes(uint64_t count) { return count * sizeof(UndoRecord) * 9 / 8 + 4096; }

TEST(HeldViewTest, NewKeysThatComeAndGoPinNothing) {
  for (const bool spread : {false, true}) {
    SCOPED_TRACE(spread);
    Churned churned(100);
    const KeyMap shown = churned.now();
    View view = churned.buckets().Take();
    std::mt19937_64 random(1);
    uint64_t most_pinned = 0;
    const uint64_t count = test::Sized(1'000'000, 30'000);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = spread ? random() | 1 : 1'000'001 + i * 1000;
      churned.Write(key, false);
      churned.Write(key, true);
      most_pinned = std::max(most_pinned, churned.pinned_bytes());
    }
    EXPECT_LE(most_pinned, UndoBytes(2 * DeltaLimit(0)));
    EXPECT_LE(churned.most_copied(), 100 + 2 * DeltaLimit(0));
    ASSERT_NO_FATAL_FAILURE(churned.ExpectShows(view.version, shown));
    ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
    ViewRegistry::Release(&view);
    test::ExpectNothingPinned(&churned.buckets().shared());
  }
}

// New keys pin memory only while another view sees them; deletes of missing keys pin none.
TEST(HeldViewTest, BriefViewsOfNewKeysPinNothingForLong) {
  Churned churned(100);
  const KeyMap shown = churned.now();
  View held = churned.buckets().Take();
  View brief = churned.buckets().Take();
  std::mt19937_64 random(2);
  uint64_t most_pinned = 0;
  const uint64_t count = test::Sized(200'000, 20'000);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < count; ++i) {
    keys.push_back(random() | 1);
    churned.Write(keys.back(), false);
    churned.Write(random() | 1, true);
    if (keys.size() < 50) continue;
    ViewRegistry::Renew(&brief);
    for (const uint64_t key : keys) churned.Write(key, true);
    keys.clear();
    most_pinned = std::max(most_pinned, churned.pinned_bytes());
  }
  EXPECT_LE(most_pinned, UndoBytes(1000));
  EXPECT_LE(churned.most_copied(), 1000u);
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShows(held.version, shown));
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
  ViewRegistry::Release(&brief);
  ViewRegistry::Release(&held);
}

// Overwrites, deletes and inserts, of existing keys and of some that do not exist.
TEST(HeldViewTest, OverwritesPinOneRecordAKeyAndCopyNoMoreThanAPart) {
  const auto installed = static_cast<uint32_t>(test::Sized(20'000, 6'000));
  Churned churned(installed);
  std::vector<std::pair<View, KeyMap>> views;
  std::mt19937_64 random(3);
  std::set<uint64_t> changed;
  const uint64_t count = test::Sized(1'000'000, 60'000);
  for (uint64_t i = 0; i < count; ++i) {
    if (i % (count / 2) == 0) views.emplace_back(churned.buckets().Take(), churned.now());
    const uint64_t key = Churned::KeyOf(random() % installed) + (random() % 4 == 0 ? 500 : 0);
    churned.Write(key, random() % 3 == 0);
    changed.insert(key);
    ASSERT_LE(churned.pinned_bytes(), UndoBytes(views.size() * changed.size()));
  }
  EXPECT_GT(churned.pinned_bytes(), installed * sizeof(UndoRecord));
  EXPECT_LE(churned.most_copied(), kMostCopied);
  for (const auto& [view, shown] : views) {
    ASSERT_NO_FATAL_FAILURE(churned.ExpectShows(view.version, shown));
  }
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
  for (auto& [view, shown] : views) ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&churned.buckets().shared());
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
}

// If all keys of a view are deleted, its parts have only history.
TEST(HeldViewTest, PartsOfHistoryAlone) {
  const auto installed = static_cast<uint32_t>(test::Sized(50'000, 10'000));
  Churned churned(0);
  for (uint64_t i = 0; i < installed; ++i) churned.Write(Churned::KeyOf(i), false);
  const KeyMap shown = churned.now();
  View view = churned.buckets().Take();
  std::mt19937_64 random(4);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < installed; ++i) order.push_back(Churned::KeyOf(i));
  std::shuffle(order.begin(), order.end(), random);
  for (const uint64_t key : order) churned.Write(key, true);
  for (uint64_t i = 0; i < installed; ++i) {
    const uint64_t key = order[random() % installed];
    churned.Write(key, false);
    churned.Write(key, true);
  }
  EXPECT_LE(churned.most_copied(), kMostCopied);
  EXPECT_LE(churned.pinned_bytes(), UndoBytes(installed));
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShows(view.version, shown));
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
  ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&churned.buckets().shared());
}

// One key with more superseded records than a part may have stays in one part. Its neighbours do
// not stay with it.
TEST(HeldViewTest, OneKeyOfVeryManyViews) {
  constexpr uint64_t kHot = 500 * 1000;
  Churned churned(1000);
  std::vector<std::pair<View, uint32_t>> views;
  const uint32_t count = 2 * kSplit;
  for (uint32_t i = 0; i < count; ++i) {
    ValueRef ref;
    ASSERT_EQ(churned.buckets().bucket().Find(kHot, &ref, nullptr, kLatestVersion), Code::kOk);
    views.emplace_back(churned.buckets().Take(), ref.slot());
    churned.Write(kHot, false);
  }
  EXPECT_LE(churned.most_copied(), kMostCopied + count);
  for (const auto& [view, slot] : views) {
    ValueRef ref;
    ASSERT_EQ(churned.buckets().bucket().Find(kHot, &ref, nullptr, view.version), Code::kOk);
    ASSERT_EQ(ref.slot(), slot);
  }
  std::mt19937_64 random(5);
  const uint64_t before = churned.buckets().shared().work().merged_records;
  const uint64_t writes = 2000;
  for (uint64_t i = 0; i < writes; ++i) churned.Write(Churned::KeyOf(random() % 500), false);
  EXPECT_LE(churned.buckets().shared().work().merged_records - before, writes * count / 8);
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
  // The youngest view first: each release of the oldest one looks at all others.
  for (; !views.empty(); views.pop_back()) ViewRegistry::Release(&views.back().first);
  test::ExpectNothingPinned(&churned.buckets().shared());
}

// Parts that were split because of their history are merged again.
TEST(HeldViewTest, SplitPartsBecomeFewAgain) {
  constexpr uint32_t kKeys = 5000;
  const auto overwrite_all = [](Churned* churned) {
    for (uint64_t i = 0; i < kKeys; ++i) churned->Write(Churned::KeyOf(i), false);
  };
  Churned never_viewed(kKeys);
  for (int round = 0; round < 20; ++round) overwrite_all(&never_viewed);
  Churned churned(kKeys);
  std::vector<View> views;
  for (int round = 0; round < 20; ++round) {
    views.push_back(churned.buckets().Take());
    overwrite_all(&churned);
  }
  EXPECT_LE(churned.most_copied(), kMostCopied);
  for (View& view : views) ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&churned.buckets().shared());
  for (int round = 0; round < 3; ++round) overwrite_all(&churned);
  ASSERT_NO_FATAL_FAILURE(churned.ExpectShowsNow());
  EXPECT_LE(churned.buckets().bucket().memory_bytes(),
            never_viewed.buckets().bucket().memory_bytes() * 5 / 4);
}

}  // namespace
}  // namespace engine_race
