// Opens the store that a race's configuration describes.
#ifndef HARNESS_RACE_OPEN_STORE_H_
#define HARNESS_RACE_OPEN_STORE_H_

#include <memory>

#include "engine_race/store.h"
#include "harness/measure/workers.h"
#include "harness/race/phase.h"

namespace harness {

// Notes a failure and returns null then. Warnings and errors of the engine go to standard error.
std::unique_ptr<engine_race::Store> OpenStore(const RaceConfig& config, Failures* failures);

}  // namespace harness

#endif  // HARNESS_RACE_OPEN_STORE_H_
