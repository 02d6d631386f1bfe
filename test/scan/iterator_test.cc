// Iterators one call at a time: positions, bounds, values, refreshing, and what they keep.
#include "engine_race/scan/iterator.h"

#include <gtest/gtest.h>

#include <atomic>

#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/scan/iterator_fixture.h"

namespace engine_race::test {
namespace {

TEST_F(IteratorTest, WalksOverEverythingBothWaysTwice) {
  Iterator iterator = store_.New();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.key().empty());
  EXPECT_TRUE(iterator.value().empty());
  iterator.Next();
  iterator.Prev();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.status().ok());
  ExpectShows(&iterator, store_.model);
}

TEST_F(IteratorTest, SeeksGoToTheRecordAtOrBesideTheKey) {
  Iterator iterator = store_.New();
  iterator.Seek(KeyOf(KeyIn(1, 7)));
  ExpectAt(iterator, KeyIn(1, 7));
  iterator.Seek(KeyOf(KeyIn(1, 7) + 1));
  ExpectAt(iterator, KeyIn(1, 8));
  iterator.SeekForPrev(KeyOf(KeyIn(1, 7)));
  ExpectAt(iterator, KeyIn(1, 7));
  iterator.SeekForPrev(KeyOf(KeyIn(1, 7) - 1));
  ExpectAt(iterator, KeyIn(1, 6));
  // Over the edges of a bucket, and of everything.
  iterator.Seek(KeyOf(KeyIn(1, kEach) + 1));
  ExpectAt(iterator, KeyIn(2, 1));
  iterator.SeekForPrev(KeyOf(KeyIn(2, 1) - 1));
  ExpectAt(iterator, KeyIn(1, kEach));
  iterator.SeekForPrev(KeyOf(KeyIn(0, 1) - 1));
  EXPECT_FALSE(iterator.Valid());
  iterator.Seek(KeyOf(KeyIn(3, kEach) + 1));
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.status().ok());
}

TEST_F(IteratorTest, TurnsRoundAnywhere) {
  Iterator iterator = store_.New();
  for (uint64_t steps = 1; steps < 700; steps += 23) {
    iterator.Seek(KeyOf(KeyIn(1, 100)));
    for (uint64_t i = 0; i < steps; ++i) iterator.Next();
    for (uint64_t i = 0; i < steps; ++i) iterator.Prev();
    ExpectAt(iterator, KeyIn(1, 100));
    for (uint64_t i = 0; i < steps; ++i) iterator.Prev();
    for (uint64_t i = 0; i < steps; ++i) iterator.Next();
    if (steps < 600) ExpectAt(iterator, KeyIn(1, 100));
  }
}

TEST_F(IteratorTest, ASeekWithinTheKeysAtHandAllocatesNothingAndIsRight) {
  Iterator iterator = store_.New();
  iterator.Seek(KeyOf(KeyIn(1, 1)));
  for (uint64_t i = 0; i < 300; ++i) iterator.Next();
  for (uint64_t i = 400; i-- > 2;) {
    iterator.Seek(KeyOf(KeyIn(1, i) - 3));
    ExpectAt(iterator, KeyIn(1, i));
    iterator.SeekForPrev(KeyOf(KeyIn(1, i) + 3));
    ExpectAt(iterator, KeyIn(1, i));
    iterator.Prev();
    ExpectAt(iterator, KeyIn(1, i - 1));
  }
}

TEST_F(IteratorTest, BoundsHoldOnBothSides) {
  const std::string lower = KeyOf(KeyIn(0, 490) + 1);
  const std::string upper = KeyOf(KeyIn(2, 20));
  IteratorOptions options;
  options.lower_bound = lower;
  options.upper_bound = upper;
  Iterator iterator = store_.New(options);
  ExpectShows(&iterator, State(store_.model.lower_bound(KeyIn(0, 491)),
                               store_.model.lower_bound(KeyIn(2, 20))));
  iterator.Seek(KeyOf(0));
  ExpectAt(iterator, KeyIn(0, 491));
  iterator.Prev();
  EXPECT_FALSE(iterator.Valid());
  iterator.SeekForPrev(KeyOf(~uint64_t{0}));
  ExpectAt(iterator, KeyIn(2, 19));
  iterator.Next();
  EXPECT_FALSE(iterator.Valid());
  iterator.Seek(upper);
  EXPECT_FALSE(iterator.Valid());
  iterator.SeekForPrev(KeyOf(KeyIn(0, 490)));
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.status().ok());
}

TEST_F(IteratorTest, EmptyBoundsShowNothing) {
  for (const uint64_t end : {uint64_t{0}, KeyIn(1, 5)}) {
    const std::string lower = KeyOf(KeyIn(1, 5));
    const std::string upper = KeyOf(end);
    IteratorOptions options;
    options.lower_bound = lower;
    options.upper_bound = upper;
    Iterator iterator = store_.New(options);
    ExpectShows(&iterator, {});
  }
}

TEST_F(IteratorTest, WrongArgumentsAreRefusedAndChangeNothing) {
  Iterator iterator = store_.New();
  iterator.SeekToFirst();
  IteratorOptions options;
  options.lower_bound = "short";
  EXPECT_EQ(store_.pool->New(options, &iterator).code(), Code::kInvalidArgument);
  options = {};
  options.upper_bound = "much too long";
  EXPECT_EQ(store_.pool->New(options, &iterator).code(), Code::kInvalidArgument);
  ExpectAt(iterator, KeyIn(0, 1));
  const Snapshot nothing;
  options = {};
  options.snapshot = &nothing;
  EXPECT_EQ(store_.pool->New(options, &iterator).code(), Code::kInvalidArgument);
  EXPECT_EQ(iterator.Refresh(nothing).code(), Code::kInvalidArgument);
  ExpectAt(iterator, KeyIn(0, 1));

  for (const std::string_view key : {std::string_view("seven b"), std::string_view()}) {
    iterator.Seek(key);
    EXPECT_FALSE(iterator.Valid());
    EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument);
    iterator.Next();
    EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument) << "it stays until the next seek";
    iterator.SeekToFirst();
    ExpectAt(iterator, KeyIn(0, 1));
    EXPECT_TRUE(iterator.status().ok());
    iterator.SeekForPrev(key);
    EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(store_.messages().empty());
}

TEST_F(IteratorTest, ADefaultMadeOneIsGoodForNothingButAssignment) {
  Iterator iterator;
  iterator.SeekToFirst();
  iterator.SeekToLast();
  iterator.Seek(KeyOf(1));
  iterator.SeekForPrev(KeyOf(1));
  iterator.Next();
  iterator.Prev();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.key().empty());
  EXPECT_TRUE(iterator.value().empty());
  EXPECT_FALSE(iterator.status().ok());
  EXPECT_EQ(iterator.Refresh().code(), Code::kInvalidArgument);
  EXPECT_EQ(iterator.RefreshKeepPosition(Snapshot()).code(), Code::kInvalidArgument);
  iterator = store_.New();
  iterator.SeekToFirst();
  ExpectAt(iterator, KeyIn(0, 1));
  Iterator other = std::move(iterator);
  ExpectAt(other, KeyIn(0, 1));
  other.Next();
  ExpectAt(other, KeyIn(0, 2));
  other.Release();
  EXPECT_FALSE(other.Valid());
}

TEST_F(IteratorTest, PrefetchedValuesAreTheSameInEveryDirection) {
  for (const uint32_t prefetch : {1u, 2u, 7u, 64u, 1000u}) {
    IteratorOptions options;
    options.prefetch_records = prefetch;
    Iterator iterator = store_.New(options);
    ExpectShows(&iterator, store_.model);
    // To and fro, with leaps.
    iterator.Seek(KeyOf(KeyIn(2, 100)));
    for (uint64_t i = 0; i < 300; ++i) {
      ASSERT_TRUE(iterator.Valid());
      ASSERT_EQ(VersionAt(&iterator), 1u);
      if (i % 11 < 4) {
        iterator.Prev();
      } else {
        iterator.Next();
      }
      if (i % 50 == 49) iterator.SeekForPrev(KeyOf(KeyIn(2, i)));
    }
  }
}

TEST_F(IteratorTest, PrefetchReadsManyValuesInFewReads) {
  IteratorOptions options;
  options.prefetch_records = 64;
  Iterator iterator = store_.New(options);
  iterator.Seek(KeyOf(KeyIn(1, 1)));
  ASSERT_EQ(VersionAt(&iterator), 1u);
  const char* const first = iterator.value().data();
  for (uint64_t i = 1; i < 64; ++i) {
    iterator.Next();
    // In the window that the first one brought.
    const ptrdiff_t distance = iterator.value().data() - first;
    ASSERT_LT(std::abs(distance), static_cast<ptrdiff_t>(BufferLayout().buffer_bytes()));
  }
  // Without memory for windows it reads fewer at once.
  std::vector<Iterator> others;
  for (int i = 0; i < 6; ++i) {
    others.push_back(store_.New(options));
    EXPECT_TRUE(WalkForward(&others.back()) == Listed(store_.model));
  }
}

// Counts the reads of values, and their bytes.
class CountReadsOfValues : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const long result = call->Proceed();
    if (call->kind == CallKind::kPread && PathOf(*call).find("/value_") != std::string::npos) {
      ++count;
      bytes += static_cast<uint64_t>(result);
    }
    return result;
  }

  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> bytes{0};
};

TEST_F(IteratorTest, AWalkReadsAsManyValuesAtOnceAsItUses) {
  store_.options.io_backend = IoBackend::kPsync;
  store_.OpenPool();
  constexpr uint64_t kAllBytes = kBuckets * kEach * kValueBytes;
  {
    CountReadsOfValues reads;
    const ScopedHook hook(&reads);
    Iterator iterator = store_.New();
    EXPECT_TRUE(WalkForward(&iterator) == Listed(store_.model));
    EXPECT_GT(reads.count, 0u);
    EXPECT_LE(reads.count, kBuckets * kEach / 20);
    EXPECT_LE(reads.bytes, kAllBytes);
  }
  {
    // Each tenth value alone is wanted.
    CountReadsOfValues reads;
    const ScopedHook hook(&reads);
    Iterator iterator = store_.New();
    uint64_t n = 0;
    for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
      if (n++ % 10 == 0) {
        ASSERT_EQ(VersionAt(&iterator), 1u);
      }
    }
    EXPECT_GT(reads.count, 0u);
    EXPECT_LE(reads.bytes, kAllBytes / 4);
  }
}

TEST_F(IteratorTest, MovingAndRefreshingAllocateNothing) {
  Iterator iterator = store_.New();
  const Snapshot snapshot = store_.TakeSnapshot();
  WalkForward(&iterator);
  WalkBackward(&iterator);
  const RefuseMemory none(0);
  for (uint64_t i = 1; i < 100; ++i) {
    EXPECT_TRUE(iterator.Refresh().ok());
    EXPECT_TRUE(iterator.Refresh(snapshot).ok());
    EXPECT_TRUE(iterator.Refresh(snapshot).ok());
    EXPECT_TRUE(iterator.RefreshKeepPosition(snapshot).ok());
  }
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    if (KeyAt(iterator) % 70 == 0) iterator.value();
  }
  EXPECT_TRUE(iterator.status().ok());
  EXPECT_FALSE(none.refused());
}

TEST_F(IteratorTest, RefreshingToTheSameStateKeepsThePositionOnlyWhenAsked) {
  const Snapshot snapshot = store_.TakeSnapshot();
  IteratorOptions options;
  options.snapshot = &snapshot;
  Iterator iterator = store_.New(options);
  iterator.Seek(KeyOf(KeyIn(1, 50)));
  const char* const value = iterator.value().data();
  ASSERT_TRUE(iterator.RefreshKeepPosition(snapshot).ok());
  ExpectAt(iterator, KeyIn(1, 50));
  EXPECT_EQ(iterator.value().data(), value);
  ASSERT_TRUE(iterator.Refresh(snapshot).ok());
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.status().ok());
  iterator.Next();
  EXPECT_FALSE(iterator.Valid());
  iterator.Seek(KeyOf(KeyIn(1, 51)));
  ExpectAt(iterator, KeyIn(1, 51));
}

TEST_F(IteratorTest, RefreshShowsTheLatestStateAndASnapshotItsOwn) {
  const State before = store_.model;
  Snapshot snapshot = store_.TakeSnapshot();
  Iterator iterator = store_.New();
  Iterator second = store_.New();
  store_.Put(KeyIn(1, 20) + 5, 7);
  store_.Put(KeyIn(1, 21), 7);
  store_.Delete(KeyIn(1, 22));
  ExpectShows(&iterator, before);
  second.Seek(KeyOf(KeyIn(1, 22)));
  ASSERT_TRUE(second.RefreshKeepPosition().ok());
  ExpectAt(second, KeyIn(1, 23));
  ASSERT_TRUE(iterator.Refresh().ok());
  EXPECT_FALSE(iterator.Valid());
  ExpectShows(&iterator, store_.model);
  iterator.Seek(KeyOf(KeyIn(1, 21)));
  EXPECT_EQ(VersionAt(&iterator), 7u);
  ASSERT_TRUE(iterator.RefreshKeepPosition(snapshot).ok());
  ExpectAt(iterator, KeyIn(1, 21));
  EXPECT_EQ(VersionAt(&iterator), 1u);
  iterator.Next();
  ExpectAt(iterator, KeyIn(1, 22));
  // Its view is its own.
  snapshot.Release();
  ExpectShows(&iterator, before);
}

TEST_F(IteratorTest, OneThatRefreshesItselfGoesOnFromItsKey) {
  IteratorOptions options;
  options.refresh_every_steps = 10;
  Iterator iterator = store_.New(options);
  iterator.Seek(KeyOf(KeyIn(1, 1)));
  store_.Put(KeyIn(1, 3) + 5, 2);
  store_.Delete(KeyIn(1, 12));
  store_.Put(KeyIn(1, 14), 2);
  for (uint64_t i = 1; i < 10; ++i) {
    ExpectAt(iterator, KeyIn(1, i));
    iterator.Next();
  }
  ExpectAt(iterator, KeyIn(1, 10));  // the old state: neither of the writes
  iterator.Next();                   // the tenth step
  ExpectAt(iterator, KeyIn(1, 11));
  iterator.Next();
  ExpectAt(iterator, KeyIn(1, 13));
  iterator.Next();
  EXPECT_EQ(VersionAt(&iterator), 2u);
  // Backwards as well: over the record that came, not the one that went.
  iterator.Prev();
  for (uint64_t i = 11; i > 3; --i) {
    iterator.Prev();
    ExpectAt(iterator, KeyIn(1, i));
  }
  iterator.Prev();
  ExpectAt(iterator, KeyIn(1, 3) + 5);
}

}  // namespace
}  // namespace engine_race::test
