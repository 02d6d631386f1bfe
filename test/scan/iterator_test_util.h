// A store of the rooms below the door with a pool of iterators, and what a walk over it is compared
// with.
#ifndef TEST_SCAN_ITERATOR_TEST_UTIL_H_
#define TEST_SCAN_ITERATOR_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/scan/iterator_pool.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {

using State = std::map<uint64_t, uint64_t>;  // keys and the versions of their values

class IteratorStore : public ScanStore {
 public:
  explicit IteratorStore(uint32_t bucket_count = 16) : ScanStore(bucket_count, FastParent()) {}
  ~IteratorStore() { ClosePool(); }

  void OpenPool() {
    ClosePool();
    if (index == nullptr) {
      const Status status = Index::Build(log.get(), options, &index);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    ranges = std::make_unique<RangeReader>(*log, *index, options, kBudgetBytes);
    pool = std::make_unique<IteratorPool>(ranges.get());
  }
  void ClosePool() {
    pool.reset();
    ranges.reset();
  }

  Iterator New(const IteratorOptions& iterator_options = {}) const {
    Iterator iterator;
    const Status status = pool->New(iterator_options, &iterator);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return iterator;
  }

  Snapshot TakeSnapshot() const {
    ViewRegistry::View view;
    EXPECT_TRUE(index->views().Take(&view).ok());
    return Snapshot(view);
  }

  static constexpr uint64_t kBudgetBytes = 32 * 1024 * 1024;  // four windows of short scans
  std::unique_ptr<RangeReader> ranges;
  std::unique_ptr<IteratorPool> pool;
};

// 0 when it stands nowhere.
inline uint64_t KeyAt(const Iterator& iterator) {
  return iterator.key().empty() ? 0 : DecodeKey(iterator.key().data());
}

// The version of the value at hand, every byte of which is compared; 0 when it is wrong, or none.
inline uint64_t VersionAt(Iterator* iterator) {
  if (!iterator->Valid()) return 0;
  const uint64_t key = KeyAt(*iterator);
  uint64_t version = 0;
  return ParseValue(key, iterator->value(), &version) ? version : 0;
}

using Walked = std::vector<std::pair<uint64_t, uint64_t>>;

inline Walked Listed(const State& state) { return {state.begin(), state.end()}; }

// The keys and versions that a whole walk sees: forwards, and backwards put in ascending order.
inline Walked WalkForward(Iterator* iterator) {
  Walked seen;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    seen.emplace_back(KeyAt(*iterator), VersionAt(iterator));
  }
  EXPECT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  return seen;
}

inline Walked WalkBackward(Iterator* iterator) {
  Walked seen;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
    seen.emplace_back(KeyAt(*iterator), VersionAt(iterator));
  }
  EXPECT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  return {seen.rbegin(), seen.rend()};
}

inline void ExpectShows(Iterator* iterator, const State& state) {
  const Walked wanted = Listed(state);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_TRUE(WalkForward(iterator) == wanted) << "forwards";
    EXPECT_TRUE(WalkBackward(iterator) == wanted) << "backwards";
  }
}

}  // namespace engine_race::test

#endif  // TEST_SCAN_ITERATOR_TEST_UTIL_H_
