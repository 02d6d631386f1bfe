// What every load needs of a store: options that keep it quiet, the bytes of a key, room on disk.
//
// Pure functions.
#ifndef HARNESS_LOAD_STORE_BASICS_H_
#define HARNESS_LOAD_STORE_BASICS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/options.h"

namespace harness {

// The defaults, with the engine's warnings and errors going to standard error.
engine_race::Options QuietOptions();

std::string KeyBytesOf(uint64_t key);

// What a store of so many records takes on disk at most, staging included.
uint64_t StoreBytes(uint64_t record_count);

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_BASICS_H_
