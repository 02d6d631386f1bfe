// Where an evenly spread key would lie in a flat run: a few keys of the run and their references.
//
// Index::Prefetch gives a window for each key, and the lookup of that key begins there. A value.
#ifndef ENGINE_RACE_INDEX_RUN_WINDOW_H_
#define ENGINE_RACE_INDEX_RUN_WINDOW_H_

#include <cstdint>

namespace engine_race {

class RefWord;

struct RunWindow {
  // Null: the lookup begins anew.
  const uint64_t* keys = nullptr;
  RefWord* refs = nullptr;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_WINDOW_H_
