// The records that views show and pin while a bucket is written to.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::ExpectShows;
using test::KeyMap;
using test::View;
using test::WatchedBuckets;

constexpr uint64_t kLast = ~uint64_t{0};

struct Watched {
  View view;
  KeyMap shown;
};

// A bucket, a map of its current records, and views with maps of the records at their time.
class ViewsPlay {
 public:
  ViewsPlay(uint64_t seed, uint64_t key_space, size_t split_keys)
      : random_(seed), key_space_(key_space), buckets_(1, split_keys) {
    std::vector<KeyRecord> installed;
    if (seed % 3 != 0) {
      for (uint64_t key = 0; key <= key_space; key += 1 + random_() % 3) {
        installed.push_back(test::RecordInSlot(key, slot_));
        now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
        ++slot_;
      }
    }
    buckets_.Install(installed);
  }

  void Write(uint64_t key, bool tombstone) {
    buckets_.Write(key, slot_, tombstone);
    if (tombstone) {
      now_.erase(key);
    } else {
      now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
    }
    ++slot_;
  }

  void Step(uint64_t burst) {
    const uint64_t what = random_() % 10;
    if (what < 5) {
      const bool deletes = random_() % 3 == 0;
      const bool hot = random_() % 3 == 0;
      const bool appends = random_() % 4 == 0;
      const uint64_t base = random_() % (key_space_ + 1);
      for (uint64_t i = 0; i < burst; ++i) {
        const uint64_t key = appends ? base + i : hot ? base + random_() % 4 : random_();
        Write(key % (key_space_ + 1), deletes && random_() % 4 != 0);
      }
    } else if (what == 5 || (what == 6 && watched_.size() < 3)) {
      watched_.push_back({buckets_.Take(), now_});
    } else if (watched_.empty()) {
      return;
    } else if (what == 6) {
      Watched copy;
      const Watched& source = Any();
      ASSERT_TRUE(buckets_.views().TakeAt(source.view.version, &copy.view).ok());
      copy.shown = source.shown;
      watched_.push_back(std::move(copy));
    } else if (what == 7) {
      Watched& moved = Any();
      ViewRegistry::Renew(&moved.view);
      moved.shown = now_;
    } else if (what == 8) {
      Watched& moved = Any();
      const Watched& source = Any();
      ViewRegistry::RenewAt(source.view.version, &moved.view);
      if (&moved != &source) moved.shown = source.shown;
    } else {
      std::swap(Any(), watched_.back());
      ViewRegistry::Release(&watched_.back().view);
      watched_.pop_back();
    }
  }

  void CheckAll() {
    for (const Watched& each : watched_) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectShows(buckets_.bucket(), each.view.version, each.shown, key_space_));
      CheckStretch(each.view.version, each.shown);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets_.bucket(), kLatestVersion, now_, key_space_));
  }

  void CheckStretch(uint64_t version, const KeyMap& shown) {
    const uint64_t first = random_() % (key_space_ + 2);
    const uint64_t last = first + random_() % 40;
    const size_t room = random_() % 20;
    const BucketIndex& index = buckets_.bucket();
    ASSERT_EQ(test::FirstKeysOf(index, first, last, version, room),
              test::KeysOf(shown, first, last, room, true));
    ASSERT_EQ(test::LastKeysOf(index, first, last, version, room),
              test::KeysOf(shown, first, last, room, false));
    std::vector<IndexEntry> entries;
    bool complete = false;
    ASSERT_EQ(index.Collect(first, last, room, &entries, &complete, version), Code::kOk);
    std::vector<uint64_t> keys;
    keys.reserve(entries.size());
    for (const IndexEntry& entry : entries) keys.push_back(entry.key);
    ASSERT_EQ(keys, test::KeysOf(shown, first, last, room, true));
  }

  void ReleaseAll() {
    for (Watched& each : watched_) ViewRegistry::Release(&each.view);
    watched_.clear();
    test::ExpectNothingPinned(&buckets_.shared());
  }

 private:
  Watched& Any() { return watched_[random_() % watched_.size()]; }

  std::mt19937_64 random_;
  const uint64_t key_space_;
  WatchedBuckets buckets_;
  uint32_t slot_ = 0;
  KeyMap now_;
  std::vector<Watched> watched_;
};

TEST(BucketViewsTest, EveryViewShowsItsCut) {
  for (uint64_t seed = 1; seed <= test::Sized(24, 4); ++seed) {
    SCOPED_TRACE(seed);
    ViewsPlay play(seed, seed % 4 == 0 ? 20 : 600, seed % 2 == 0 ? 100 : 1000);
    for (int step = 0; step < 150; ++step) {
      ASSERT_NO_FATAL_FAILURE(play.Step(1 + seed * 7 % 97));
      if (step % 10 == 9) {
        ASSERT_NO_FATAL_FAILURE(play.CheckAll());
      }
    }
    play.ReleaseAll();
    ASSERT_NO_FATAL_FAILURE(play.CheckAll());
  }
}

// Keys above all others go to a part of their own. If they are deleted again, that part has no run,
// and views still show them.
TEST(BucketViewsTest, AppendedAndDeletedKeysStayShown) {
  constexpr uint32_t kCount = 3000;
  WatchedBuckets buckets(1, 500);
  buckets.Install({});
  KeyMap shown;
  uint32_t slot = 0;
  std::vector<std::pair<View, KeyMap>> views;
  for (uint32_t key = 0; key < kCount; ++key) {
    buckets.Write(key, slot);
    shown[key] = ValueRef(slot, slot & 0xffff, false);
    ++slot;
    if (key % 500 == 499) views.emplace_back(buckets.Take(), shown);
  }
  for (uint64_t key = kCount; key-- > 0;) {
    buckets.Write(key, slot++, true);
    shown.erase(key);
    if (key % 500 == 250) views.emplace_back(buckets.Take(), shown);
  }
  for (uint64_t key = 0; key < 200; ++key) buckets.Write(key * 15, slot++, true);
  EXPECT_GT(buckets.shared().bytes(), kCount * sizeof(UndoRecord) / 2);
  for (const auto& [view, wanted] : views) {
    ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), view.version, wanted, kCount));
  }
  for (auto& [view, wanted] : views) ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&buckets.shared());
}

// Deleted keys stay in the history of a part. Keys that are appended in their place must not go to
// a new part behind it.
TEST(BucketViewsTest, AppendedKeysDoNotHideTheHistoryOfTheOldOnes) {
  constexpr uint32_t kCount = 450;
  WatchedBuckets buckets(1, 500);
  std::vector<KeyRecord> installed;
  for (uint32_t key = 0; key < kCount; ++key) installed.push_back(test::RecordInSlot(key, key));
  buckets.Install(installed);
  KeyMap shown;
  for (uint32_t key = 0; key < kCount; ++key) shown[key] = ValueRef(key, key & 0xffff, false);
  View view = buckets.Take();
  uint32_t slot = kCount;
  for (uint32_t round = 0; round < 2; ++round) {
    // The highest keys are deleted, others fill the delta, and then more keys are appended than
    // were deleted.
    for (uint64_t key = kCount - 10; key < kCount; ++key) buckets.Write(key, slot++, true);
    for (uint64_t i = 10; i < DeltaLimit(kCount); ++i) buckets.Write(i, slot++);
    for (uint64_t key = kCount - 10; key < kCount + 300; ++key) buckets.Write(key, slot++);
    ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), view.version, shown, kCount + 300));
    for (uint64_t key = kCount; key < kCount + 300; ++key) buckets.Write(key, slot++, true);
  }
  ViewRegistry::Release(&view);
}

// FirstKeys and LastKeys, of keys in clusters and of evenly spread keys.
TEST(BucketViewsTest, NeighboursInEveryShape) {
  for (const test::Shape shape : test::AllShapes()) {
    SCOPED_TRACE(test::NameOf(shape));
    const auto records = test::MakeRecords(shape, 5000, test::Order::kAlong);
    WatchedBuckets buckets(1);
    buckets.Install(records);
    KeyMap shown;
    for (const IndexEntry& entry : test::Model(records).Entries()) shown[entry.key] = entry.ref;
    std::mt19937_64 random(3);
    for (int i = 0; i < 3000; ++i) {
      const KeyRecord& record = records[random() % records.size()];
      const uint64_t key = record.key + random() % 3 - 1;
      ASSERT_EQ(test::FirstKeysOf(buckets.bucket(), key, kLast, 5, 9),
                test::KeysOf(shown, key, kLast, 9, true));
      ASSERT_EQ(test::LastKeysOf(buckets.bucket(), 0, key, 5, 9),
                test::KeysOf(shown, 0, key, 9, false));
    }
  }
}

TEST(BucketViewsTest, HeldViewPinsOneRecordAKey) {
  constexpr uint64_t kKeys = 1000;
  const uint64_t writes = test::Sized(1000000, 30000);
  std::vector<KeyRecord> installed;
  for (uint32_t key = 0; key < kKeys; ++key) installed.push_back(test::RecordInSlot(key, key));
  WatchedBuckets buckets(1);
  buckets.Install(installed);
  KeyMap shown;
  for (uint32_t key = 0; key < kKeys; ++key) shown[key] = ValueRef(key, key & 0xffff, false);
  const uint64_t before = buckets.bucket().memory_bytes();
  View view = buckets.Take();
  std::mt19937_64 random(5);
  for (uint64_t i = 0; i < writes; ++i) {
    buckets.Write(random() % kKeys, static_cast<uint32_t>(kKeys + i), random() % 5 == 0);
  }
  EXPECT_LE(buckets.shared().bytes(), kKeys * sizeof(UndoRecord) * 9 / 8 + sizeof(History));
  EXPECT_GT(buckets.shared().bytes(), kKeys / 2 * sizeof(UndoRecord));
  ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), view.version, shown, kKeys));
  ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&buckets.shared());
  // The bounds of what a view may pin, and of a delta's memory.
  EXPECT_LE(buckets.bucket().memory_bytes(), before + 24 * 1024);
}

// Short views beside an old one: records that only they could see are dropped with them.
TEST(BucketViewsTest, ShortViewsBesideAnOldOnePinNothingForLong) {
  constexpr uint64_t kKeys = 300;
  const uint64_t writes = test::Sized(200000, 20000);
  WatchedBuckets buckets(1);
  buckets.Install({});
  uint32_t slot = 0;
  KeyMap shown;
  for (uint64_t key = 0; key < kKeys; ++key) {
    buckets.Write(key, slot);
    shown[key] = ValueRef(slot, slot & 0xffff, false);
    ++slot;
  }
  View old = buckets.Take();
  std::mt19937_64 random(5);
  uint64_t most = 0;
  for (uint64_t i = 0; i < writes; ++i) {
    View brief = buckets.Take();
    // A hot key among others.
    buckets.Write(i % 2 == 0 ? 7 : random() % kKeys, slot++);
    ViewRegistry::Release(&brief);
    most = std::max(most, buckets.shared().bytes());
  }
  EXPECT_LE(most, kKeys * sizeof(UndoRecord) * 9 / 8 + sizeof(History));
  EXPECT_LT(buckets.bucket().memory_bytes(), 100 * kKeys + (64 << 10));
  ASSERT_NO_FATAL_FAILURE(ExpectShows(buckets.bucket(), old.version, shown, kKeys));
  ViewRegistry::Release(&old);
  test::ExpectNothingPinned(&buckets.shared());
}

TEST(BucketViewsTest, DamagedBucketKnowsNoMoreInThePast) {
  WatchedBuckets buckets(1, 500);
  std::vector<KeyRecord> provable;
  for (uint32_t i = 0; i < 100; ++i) provable.push_back(test::RecordInSlot(1000 + i, i));
  buckets.Install(provable, 0, true);
  uint32_t slot = 1000;
  std::vector<uint64_t> keys(10);
  size_t count = 0;
  EXPECT_EQ(buckets.bucket().published(), nullptr);
  View view = buckets.Take();
  for (uint64_t key = 0; key < 2000; ++key) buckets.Write(key, slot++, key % 2 == 0);
  View later = buckets.Take();
  for (uint64_t key = 0; key < 2000; ++key) buckets.Write(key, slot++);
  for (uint64_t key = 0; key < 2000; ++key) {
    ValueRef ref;
    const bool known = key >= 1000 && key < 1100;
    ASSERT_EQ(buckets.bucket().Find(key, &ref, nullptr, view.version),
              known ? Code::kOk : Code::kCorruption);
    ASSERT_EQ(buckets.bucket().Find(key, &ref, nullptr, later.version),
              key % 2 == 0 ? Code::kNotFound : Code::kOk);
    ASSERT_EQ(buckets.bucket().Find(key, &ref, nullptr, kLatestVersion), Code::kOk);
  }
  EXPECT_EQ(buckets.bucket().FirstKeys(0, kLast, view.version, keys, &count), Code::kCorruption);
  EXPECT_EQ(buckets.bucket().LastKeys(0, kLast, view.version, keys, &count), Code::kCorruption);
  ViewRegistry::Release(&view);
  ViewRegistry::Release(&later);
}

// Views are taken and read without the lock until the first record is appended. The last of them
// must show the same afterwards.
TEST(BucketViewsTest, FirstRecordOfABucketAndAView) {
  const size_t bucket_count = test::Sized(20000, 1000);
  constexpr uint64_t kKey = 50;
  WatchedBuckets buckets(bucket_count);
  std::vector<KeyRecord> installed;
  for (uint32_t key = 0; key < 100; ++key) installed.push_back(test::RecordInSlot(key, key));
  for (size_t b = 0; b < bucket_count; ++b) buckets.Install(installed, b);
  std::atomic<size_t> turn{0};
  std::thread writer([&] {
    for (size_t b = 0; b < bucket_count; ++b) {
      for (int spin = 0; turn.load() <= b; ++spin) {
        // The other thread may have no processor.
        if (spin > 1000) std::this_thread::yield();
      }
      for (size_t spin = b % 64; spin > 0; --spin) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
      buckets.Write(kKey, 101, false, b);
    }
  });
  uint64_t wrong = 0;
  View views[2] = {buckets.Take(), buckets.Take()};
  for (size_t b = 0; b < bucket_count; ++b) {
    const BucketIndex& bucket = buckets.bucket(b);
    turn.store(b + 1);
    ValueRef ref;
    size_t shown_count = 0;
    while (true) {
      View& view = views[shown_count % 2];
      ViewRegistry::Renew(&view);
      if (bucket.Find(kKey, &ref, nullptr, view.version) != Code::kOk) ++wrong;
      if (ref.slot() != kKey) break;
      if (++shown_count > 1000) std::this_thread::yield();
    }
    if (shown_count == 0) continue;
    const View& last = views[(shown_count - 1) % 2];
    if (bucket.Find(kKey, &ref, nullptr, last.version) != Code::kOk || ref.slot() != kKey) ++wrong;
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
  for (View& view : views) ViewRegistry::Release(&view);
  test::ExpectNothingPinned(&buckets.shared());
}
}  // namespace
}  // namespace engine_race
