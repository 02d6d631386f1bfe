// The flag --numa of programs that open a store.
//
// Pure functions.
#ifndef HARNESS_LOAD_NUMA_FLAG_H_
#define HARNESS_LOAD_NUMA_FLAG_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/numa/topology.h"

namespace harness {

// "none", "interleave", "interleave:0,2-3" or "bind:0,2-3"; nullopt for any other text.
std::optional<engine_race::NumaOptions> ParseNuma(std::string_view text);
// The first of its nodes that the machine does not have. Nullopt where the kernel shows no nodes:
// there the store does without what cannot be had.
std::optional<uint32_t> MissingNode(const engine_race::NumaOptions& numa,
                                    const engine_race::numa::Topology& topology);

}  // namespace harness

#endif  // HARNESS_LOAD_NUMA_FLAG_H_
