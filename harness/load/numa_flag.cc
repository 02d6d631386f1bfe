#include "harness/load/numa_flag.h"

namespace engine_race::harness {

std::optional<NumaOptions> ParseNuma(std::string_view text) {
  const std::string_view mode = text.substr(0, text.find(':'));
  NumaOptions numa;
  numa.mode = mode == "bind"         ? NumaMode::kBind
              : mode == "interleave" ? NumaMode::kInterleave
                                     : NumaMode::kNone;
  if (numa.mode == NumaMode::kNone) return text == "none" ? std::optional(numa) : std::nullopt;
  // Without nodes memory can be spread over all of them, but bound to none.
  if (mode.size() == text.size()) {
    return numa.mode == NumaMode::kInterleave ? std::optional(numa) : std::nullopt;
  }
  if (!numa::ParseList(text.substr(mode.size() + 1), numa::kMaxNodeCount, &numa.nodes) ||
      numa.nodes.empty()) {
    return std::nullopt;
  }
  return numa;
}

std::string ParseNumaFlag(std::string_view text, const numa::Topology& topology,
                          NumaOptions* numa) {
  const std::string flag = "--numa " + std::string(text) + ": ";
  const std::optional<NumaOptions> parsed = ParseNuma(text);
  if (!parsed) return flag + "give none, interleave, interleave:NODES or bind:NODES";
  for (const uint32_t node : parsed->nodes) {
    // Where the kernel shows no nodes, they may be there all the same.
    if (topology.from_kernel && topology.Find(node) == nullptr) {
      return flag + "there is no node " + std::to_string(node);
    }
  }
  *numa = *parsed;
  return {};
}

}  // namespace engine_race::harness
