// kScanKeyCount keys of a flat run, and their references, among which a lookup first looks for its
// key. Index::Prefetch gives a window for each key. A value.
#ifndef ENGINE_RACE_INDEX_RUN_WINDOW_H_
#define ENGINE_RACE_INDEX_RUN_WINDOW_H_

#include <cstdint>

namespace engine_race {

class RefWord;

struct RunWindow {
  // Null: there is no window, and the lookup begins at the radix table.
  const uint64_t* keys = nullptr;
  RefWord* refs = nullptr;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_WINDOW_H_
