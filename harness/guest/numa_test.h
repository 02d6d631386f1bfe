// The test of a guest with several NUMA nodes: races of bin/numa, then stores that place their
// memory themselves. They run one after the other, on an ext4.
//
// Each line of the file /races is a name and the flags of a race. The guest says "RACE name" and
// passes on what the race prints. Then it says "FIGURES name JSON", with the race's figures on one
// line, and "END name CODE". Lines of /stores are the same for RunNumaStore. The host judges:
// scripts/numa_guest.py.
#ifndef HARNESS_GUEST_NUMA_TEST_H_
#define HARNESS_GUEST_NUMA_TEST_H_

namespace engine_race::guest {

[[noreturn]] void RunNumaTest();

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_NUMA_TEST_H_
