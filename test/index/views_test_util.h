// A bucket's index with views of it, as an Index makes it, and maps of what the views must show.
#ifndef TEST_INDEX_VIEWS_TEST_UTIL_H_
#define TEST_INDEX_VIEWS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/index/views.h"
#include "engine_race/numa/store_placement.h"
#include "test/index/index_test_util.h"

namespace engine_race::test {

using View = ViewRegistry::View;
using KeyMap = std::map<uint64_t, ValueRef>;  // without tombstones

inline BucketIndex::Row RowOf(const std::vector<KeyRecord>& records, size_t split_keys) {
  const std::vector<format::KeyEntry> entries = Encode(records);
  SlabAllocator slabs(1 << 20);
  BuiltParts built;
  EXPECT_TRUE(PartBuilder(&slabs, split_keys).Build(RawOf(entries), &built).ok());
  return std::move(built.parts);
}

inline constexpr auto kNever = [] { return false; };

// Makes the sweep that was requested, as the keeper does. It must free all that was kept for views.
inline void ExpectNothingPinned(BucketShared* shared) {
  shared->Sweep(kNever);
  EXPECT_EQ(shared->bytes(), 0U);
}

// Some buckets with one registry of views. The first record of a bucket has slot 0.
class WatchedBuckets {
 public:
  explicit WatchedBuckets(size_t count, size_t split_keys = BucketIndex::kSplitKeys)
      : buckets_(std::make_unique<BucketIndex[]>(count)), split_keys_(split_keys) {
    EXPECT_TRUE(ViewRegistry::Create(&views_).ok());
    shared_.Watch(views_);
    for (size_t i = 0; i < count; ++i) {
      buckets_[i].set_split_keys(split_keys);
      buckets_[i].set_shared(&shared_);
      buckets_[i].Expect();
    }
  }
  WatchedBuckets(const WatchedBuckets&) = delete;
  WatchedBuckets& operator=(const WatchedBuckets&) = delete;
  ~WatchedBuckets() { views_->Close(); }

  void Install(const std::vector<KeyRecord>& records, size_t bucket = 0, bool damaged = false) {
    ASSERT_TRUE(buckets_[bucket].Install(RowOf(records, split_keys_), damaged).ok());
  }
  void Write(uint64_t key, uint32_t slot, bool tombstone = false, size_t bucket = 0) {
    ASSERT_TRUE(buckets_[bucket].Prepare().ok());
    buckets_[bucket].OnAppend(RecordInSlot(key, slot, tombstone));
  }
  View Take() {
    View view;
    EXPECT_TRUE(views_->Take(&view).ok());
    return view;
  }

  BucketIndex& bucket(size_t index = 0) { return buckets_[index]; }
  ViewRegistry& views() { return *views_; }
  BucketShared& shared() { return shared_; }

 private:
  ViewRegistry* views_ = nullptr;
  numa::StorePlacement placement_;
  BucketShared shared_{placement_.memory()};
  std::unique_ptr<BucketIndex[]> buckets_;
  const size_t split_keys_;
};

// The calls of Index, by a thread that no writer runs beside.
inline std::vector<uint64_t> FirstKeysOf(const BucketIndex& index, uint64_t first, uint64_t last,
                                         uint64_t version, size_t room) {
  std::vector<uint64_t> keys(room);
  size_t count = 0;
  const PublishedRuns* const runs = index.published();
  if (runs == nullptr || !runs->FirstKeys(first, last, keys, &count)) {
    EXPECT_EQ(index.FirstKeys(first, last, version, keys, &count), Code::kOk);
  }
  keys.resize(count);
  return keys;
}

inline std::vector<uint64_t> LastKeysOf(const BucketIndex& index, uint64_t first, uint64_t last,
                                        uint64_t version, size_t room) {
  std::vector<uint64_t> keys(room);
  size_t count = 0;
  const PublishedRuns* const runs = index.published();
  if (runs == nullptr || !runs->LastKeys(first, last, keys, &count)) {
    EXPECT_EQ(index.LastKeys(first, last, version, keys, &count), Code::kOk);
  }
  keys.erase(keys.begin(), keys.end() - static_cast<ptrdiff_t>(count));
  return keys;
}

// Checks that the index shows `wanted` at `version`, and nothing else. Looks for every key up to
// `key_space` and for the highest one.
inline void ExpectShows(const BucketIndex& index, uint64_t version, const KeyMap& wanted,
                        uint64_t key_space) {
  std::vector<IndexEntry> entries;
  bool complete = false;
  ASSERT_EQ(index.Collect(0, ~uint64_t{0}, ~size_t{0}, &entries, &complete, version), Code::kOk);
  ASSERT_EQ(entries.size(), wanted.size());
  std::vector<uint64_t> keys;
  auto it = wanted.begin();
  for (const IndexEntry& entry : entries) {
    ASSERT_EQ(entry.key, it->first);
    ASSERT_TRUE(SameRef(entry.ref, it->second)) << entry.key;
    keys.push_back(entry.key);
    ++it;
  }
  for (uint64_t key = 0; key <= key_space; ++key) {
    ValueRef ref;
    const auto found = wanted.find(key);
    const Code code = index.Find(key, &ref, nullptr, version);
    ASSERT_EQ(code, found == wanted.end() ? Code::kNotFound : Code::kOk) << key;
    if (code == Code::kOk) {
      ASSERT_TRUE(SameRef(ref, found->second)) << key;
    }
  }
  ASSERT_EQ(FirstKeysOf(index, 0, ~uint64_t{0}, version, keys.size() + 1), keys);
  ASSERT_EQ(LastKeysOf(index, 0, ~uint64_t{0}, version, keys.size() + 1), keys);
}

// The keys of `wanted` in [first, last], at most `room` of them from one end.
inline std::vector<uint64_t> KeysOf(const KeyMap& wanted, uint64_t first, uint64_t last,
                                    size_t room, bool from_front) {
  std::vector<uint64_t> keys;
  if (from_front) {
    for (auto it = wanted.lower_bound(first);
         it != wanted.end() && it->first <= last && keys.size() < room; ++it) {
      keys.push_back(it->first);
    }
    return keys;
  }
  for (auto it = wanted.upper_bound(last);
       it != wanted.begin() && (--it)->first >= first && keys.size() < room;) {
    keys.push_back(it->first);
  }
  std::reverse(keys.begin(), keys.end());
  return keys;
}

}  // namespace engine_race::test

#endif  // TEST_INDEX_VIEWS_TEST_UTIL_H_
