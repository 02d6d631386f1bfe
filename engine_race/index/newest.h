// Which record of a key is the newest, and what can be proved about it in a damaged bucket.
//
// Sequence numbers of a bucket are unique and below its bound. So the numbers of damaged records
// are among those that no intact record has. A record above the highest of those is newer than any
// record that was lost. If numbers are missing for another reason, less is provable, never more.
#ifndef ENGINE_RACE_INDEX_NEWEST_H_
#define ENGINE_RACE_INDEX_NEWEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/log/entry_codec.h"

namespace engine_race {

// Sorts by key, the newest record of a key first. Drops the others and returns how many are left.
template <typename Record>
size_t KeepNewest(Record* records, size_t count) {
  std::sort(records, records + count, [](const Record& a, const Record& b) {
    return a.key != b.key ? a.key < b.key : a.sequence > b.sequence;
  });
  Record* const end = std::unique(records, records + count,
                                  [](const Record& a, const Record& b) { return a.key == b.key; });
  return static_cast<size_t>(end - records);
}

inline void KeepNewest(std::vector<KeyRecord>* records) {
  records->resize(KeepNewest(records->data(), records->size()));
}

// The highest sequence numbers of a bucket's intact records. With `n` records, one of the `n + 1`
// highest numbers is missing, so lower ones do not matter.
class SequenceSet {
 public:
  // Takes an eighth of a byte a record. Not thread-safe. May throw std::bad_alloc.
  SequenceSet(uint64_t sequence_bound, uint64_t record_count)
      : bound_(sequence_bound), seen_(std::min(sequence_bound, record_count + 1)) {}

  void Add(uint64_t sequence) {
    const uint64_t from_top = bound_ - 1 - sequence;
    if (from_top < seen_.size()) seen_[from_top] = true;
  }

  // Every record with this sequence number or a higher one is intact.
  uint64_t FirstProvable() const {
    const auto gap = std::find(seen_.begin(), seen_.end(), false);
    return bound_ - static_cast<uint64_t>(gap - seen_.begin());
  }

 private:
  const uint64_t bound_;
  std::vector<bool> seen_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_NEWEST_H_
