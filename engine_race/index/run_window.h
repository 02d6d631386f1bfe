// Where a lookup first looks for its key. In a paged run that is one place of a block, in a flat
// one the kScanKeyCount keys from a rank on. Index::Prefetch gives a window for each key. The
// lookup checks what is there, because the run may be another one by then. A value.
#ifndef ENGINE_RACE_INDEX_RUN_WINDOW_H_
#define ENGINE_RACE_INDEX_RUN_WINDOW_H_

#include <cstdint>

namespace engine_race {

struct RunWindow {
  // Numbers from here on stand for flat runs.
  static constexpr uint32_t kFlat = uint32_t{1} << 31;

  bool is_flat() const { return block >= kFlat; }

  // The number of a block of records, or kFlat and the number of a flat run among the published
  // ones of its bucket. 0: there is no window.
  uint32_t block = 0;
  // In that block, or in the flat run.
  uint32_t place = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_WINDOW_H_
