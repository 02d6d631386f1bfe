#include "harness/bench/report.h"

// The Makefile defines it, without quotation marks, for this file alone.
#ifndef ENGINE_RACE_GIT_HASH
#define ENGINE_RACE_GIT_HASH unknown
#endif
#define ENGINE_RACE_TEXT_OF(word) #word
#define ENGINE_RACE_TEXT(word) ENGINE_RACE_TEXT_OF(word)

namespace engine_race::harness {

std::string GitHash() { return ENGINE_RACE_TEXT(ENGINE_RACE_GIT_HASH); }

}  // namespace engine_race::harness
