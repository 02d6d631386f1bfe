// Which record of a key is the newest.
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

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_NEWEST_H_
