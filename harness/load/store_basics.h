// Helpers of every load: options that keep a store quiet, the bytes of a key, space on disk, flags.
//
// Pure functions.
#ifndef HARNESS_LOAD_STORE_BASICS_H_
#define HARNESS_LOAD_STORE_BASICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/numa/topology.h"

namespace harness {

// The default options, with the engine's warnings and errors written to standard error.
engine_race::Options QuietOptions();

std::string KeyBytesOf(uint64_t key);

// The most space that a store of this many records takes on disk, staging included.
uint64_t StoreBytes(uint64_t record_count);

// The most records that a thread of a race may have: with 4096 threads no sum of bytes wraps.
inline constexpr uint64_t kMaxRecordsPerThread = uint64_t{1} << 36;
// The most space that the phases of a race take on disk.
uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed);

// "none", "interleave", "interleave:0,2-3" or "bind:0,2-3"; nullopt for any other text.
std::optional<engine_race::NumaOptions> ParseNuma(std::string_view text);
// The first of its nodes that is not in the topology.
std::optional<uint32_t> MissingNode(const engine_race::NumaOptions& numa,
                                    const engine_race::numa::Topology& topology);

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_BASICS_H_
