// Loads a word that will be needed soon; nothing waits for it.
//
// Processors drop a prefetch instruction if the page must be looked up first, so this is a load.
#ifndef ENGINE_RACE_BASE_TOUCH_H_
#define ENGINE_RACE_BASE_TOUCH_H_

#include <cstdint>

namespace engine_race {

inline void Touch(uint64_t loaded) { asm volatile("" : : "r"(loaded)); }

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_TOUCH_H_
