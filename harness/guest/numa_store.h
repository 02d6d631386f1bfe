// A race of one store that places its memory itself, in a guest with several NUMA nodes.
//
// The guest runs bin/race alone, without numactl, and plays the launcher at its gate. At the end of
// each phase the store is still open. The guest then says "REPORT name phase JSON": what `numa
// report` tells of the phase's process. At last it says "END name CODE".
//
// The race begins with a policy that prefers node 0, so that no memory lies on the store's nodes by
// chance. It has no huge pages: memory that is spread well over a few of them looks uneven.
#ifndef HARNESS_GUEST_NUMA_STORE_H_
#define HARNESS_GUEST_NUMA_STORE_H_

#include <string>
#include <vector>

namespace engine_race::guest {

// `flags` are those of bin/race beside the directory's and the gate's.
void RunNumaStore(const std::string& name, const std::vector<std::string>& flags);

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_NUMA_STORE_H_
