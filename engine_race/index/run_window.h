// Where a lookup first looks for its key. That is among kScanKeyCount keys of a flat run and their
// references, or in one place of a paged run. Index::Prefetch gives a window for each key. A value.
#ifndef ENGINE_RACE_INDEX_RUN_WINDOW_H_
#define ENGINE_RACE_INDEX_RUN_WINDOW_H_

#include <cstdint>

namespace engine_race {

class RefWord;

struct RunWindow {
  // Null: there is no window in a flat run.
  const uint64_t* keys = nullptr;
  RefWord* refs = nullptr;
  // The number of a block of records, and the place in it. 0: there is none. The lookup checks what
  // is there, because the block may have left its frame.
  uint32_t block = 0;
  uint32_t place = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_WINDOW_H_
