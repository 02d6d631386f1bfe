// The superseded records that a history keeps, and writes while memory is refused.
#include "engine_race/index/history.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "test/index/refused_memory.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::ExpectShows;
using test::KeyMap;
using test::RefuseMemory;
using test::View;
using test::WatchedBuckets;

ValueRef Ref(uint32_t slot) { return ValueRef(slot, slot & 0xffff, false); }

LiveVersions LiveVersionsOf(const std::vector<uint64_t>& versions) {
  return LiveVersions(std::make_shared<const std::vector<uint64_t>>(versions));
}

// The slot that a view of `version` finds; 0 for none.
uint32_t SlotAt(const History& history, uint64_t key, uint64_t version) {
  ValueRef ref;
  return history.Find(key, version, &ref) ? ref.slot() : 0;
}

TEST(HistoryTest, FindsWhatAKeyWas) {
  const History history(
      {{3, 10, Ref(1)}, {3, 20, Ref(2)}, {7, 5, ValueRef::None()}, {7, 30, Ref(3)}});
  EXPECT_EQ(SlotAt(history, 3, 0), 1U);
  EXPECT_EQ(SlotAt(history, 3, 9), 1U);
  EXPECT_EQ(SlotAt(history, 3, 10), 2U);
  EXPECT_EQ(SlotAt(history, 3, 19), 2U);
  ValueRef ref;
  EXPECT_FALSE(history.Find(3, 20, &ref));
  EXPECT_FALSE(history.Find(4, 0, &ref));
  ASSERT_TRUE(history.Find(7, 4, &ref));
  EXPECT_TRUE(ref.none());
  EXPECT_TRUE(ref.tombstone());
  EXPECT_EQ(SlotAt(history, 7, 29), 3U);
  EXPECT_FALSE(history.Find(7, 30, &ref));
}

TEST(HistoryTest, SweepKeepsWhatIsSeen) {
  const auto history = std::make_shared<const History>(
      std::vector<UndoRecord>{{3, 10, Ref(1)}, {3, 20, Ref(2)}, {3, 30, Ref(3)}, {7, 15, Ref(4)}});
  EXPECT_EQ(History::Sweep(history, LiveVersionsOf({5, 12, 25})), history);
  EXPECT_EQ(History::Sweep(history, LiveVersionsOf({})), nullptr);
  EXPECT_EQ(History::Sweep(history, LiveVersionsOf({30})), nullptr);
  const auto some = History::Sweep(history, LiveVersionsOf({16}));
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(some->records().size(), 1U);
  EXPECT_EQ(SlotAt(*some, 3, 16), 2U);
  LiveVersions pending;
  pending.AddAllFrom(11);
  EXPECT_EQ(History::Sweep(history, pending)->records().size(), 3U);
}

// If memory is refused, a write may fail, but it has changed nothing, and the next write succeeds.
TEST(HistoryTest, RefusedMemoryChangesNothing) {
  constexpr uint64_t kKeys = 150;
  WatchedBuckets buckets(1, 60);
  buckets.Install({});
  std::mt19937_64 random(1);
  KeyMap now;
  std::vector<std::pair<View, KeyMap>> views;
  uint64_t refused_count = 0;
  for (uint32_t slot = 0; slot < test::Sized(3000, 800); ++slot) {
    for (uint64_t passed = 0;; ++passed) {
      Status status;
      bool was_refused = false;
      {
        const RefuseMemory refuse(passed);
        status = buckets.bucket().Prepare();
        was_refused = refuse.refused();
      }
      if (!was_refused) {
        ASSERT_TRUE(status.ok());
        break;
      }
      // If memory is refused, the census of live views says more than is true.
      if (!status.ok()) {
        ASSERT_EQ(status.code(), Code::kOutOfMemory);
      }
      ++refused_count;
      if (status.ok()) break;
      ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), kLatestVersion, now, kKeys));
      for (const auto& [view, shown] : views) {
        ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), view.version, shown, kKeys));
      }
    }
    const uint64_t key = random() % kKeys;
    const bool tombstone = random() % 3 == 0;
    buckets.bucket().OnAppend(test::RecordInSlot(key, slot, tombstone));
    if (tombstone) {
      now.erase(key);
    } else {
      now[key] = Ref(slot);
    }
    if (slot % 40 == 0) views.emplace_back(buckets.Take(), now);
    if (views.size() > 4) {
      const RefuseMemory refuse(random() % 4);
      ViewRegistry::Release(&views.front().first);
      std::swap(views.front(), views.back());
      views.pop_back();
    }
  }
  EXPECT_GT(refused_count, 20U);
  for (auto& [view, shown] : views) {
    ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), view.version, shown, kKeys));
    ViewRegistry::Release(&view);
  }
  test::ExpectNothingPinned(&buckets.shared());
}

TEST(HistoryTest, RefusedMemoryForViews) {
  ViewRegistry* views = nullptr;
  for (uint64_t passed = 0; views == nullptr; ++passed) {
    const RefuseMemory refuse(passed);
    const Status status = ViewRegistry::Create(&views);
    ASSERT_EQ(status.ok(), !refuse.refused());
  }
  std::vector<View> taken;
  taken.reserve(1000);
  uint64_t refused_count = 0;
  while (taken.size() < 500) {
    View view;
    const RefuseMemory refuse(0);
    if (views->Take(&view).ok()) {
      taken.push_back(view);
      continue;
    }
    ++refused_count;
    EXPECT_EQ(view.registry, nullptr);
    // With memory the next write succeeds.
    const RefuseMemory none(1000);
    ASSERT_TRUE(views->Take(&view).ok());
    taken.push_back(view);
  }
  EXPECT_GT(refused_count, 0U);
  EXPECT_EQ(views->TakeCensus().count, 500U);
  for (View& view : taken) ViewRegistry::Release(&view);
  views->Close();
}

}  // namespace
}  // namespace engine_race
