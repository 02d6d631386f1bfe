// The flag --numa of programs that open a store.
//
// Pure functions.
#ifndef HARNESS_LOAD_NUMA_FLAG_H_
#define HARNESS_LOAD_NUMA_FLAG_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/numa/topology.h"

namespace engine_race::harness {

// "none", "interleave", "interleave:0,2-3" or "bind:0,2-3"; nullopt for any other text.
std::optional<NumaOptions> ParseNuma(std::string_view text);
// Parses the flag into *numa. Returns an empty string or what is wrong: another text, or a node
// that the machine does not have. Where the kernel shows no nodes, the store does without them.
std::string ParseNumaFlag(std::string_view text, const numa::Topology& topology, NumaOptions* numa);

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_NUMA_FLAG_H_
