// Where a lookup first looks for its key. In a paged run that is one place of a block, in a flat
// one the kScanKeyCount keys from a rank on. Index::Prefetch gives a window for each key. The
// lookup checks what is there, because the run may be another one by then. A value.
#ifndef ENGINE_RACE_INDEX_RUN_WINDOW_H_
#define ENGINE_RACE_INDEX_RUN_WINDOW_H_

#include <cstdint>

namespace engine_race {

struct RunWindow {
  // In the place of a block's number: the run is flat.
  static constexpr uint32_t kFlat = ~uint32_t{0};

  // The number of a block of records, or kFlat. 0: there is no window.
  uint32_t block = 0;
  // In that block, or in the flat run.
  uint32_t place = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_WINDOW_H_
