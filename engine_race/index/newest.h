// Which record of a key is the newest.
#ifndef ENGINE_RACE_INDEX_NEWEST_H_
#define ENGINE_RACE_INDEX_NEWEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace engine_race {

// Sorts by key, the newest record of a key first, and the latest copy of that. Drops the others and
// returns how many are left. is_later_copy(a, b): whether `a` is a later copy than `b`.
template <typename Record, typename IsLaterCopyFn>
size_t KeepNewest(Record* records, size_t count, IsLaterCopyFn is_later_copy) {
  std::sort(records, records + count, [&](const Record& a, const Record& b) {
    if (a.key != b.key) return a.key < b.key;
    return a.sequence != b.sequence ? a.sequence > b.sequence : is_later_copy(a, b);
  });
  Record* const end = std::unique(records, records + count,
                                  [](const Record& a, const Record& b) { return a.key == b.key; });
  return static_cast<size_t>(end - records);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_NEWEST_H_
