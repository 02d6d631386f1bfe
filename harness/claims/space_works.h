// The works of children of the bench about space, see harness/system/own_child.h: writes in little
// memory, and small stores.
//
// Stateless; a work starts the threads that it needs.
#ifndef HARNESS_CLAIMS_SPACE_WORKS_H_
#define HARNESS_CLAIMS_SPACE_WORKS_H_

#include "harness/system/own_child.h"

namespace engine_race::harness {

// Writes spread keys to a new store in one thread, until `write_count` are written or `seconds`
// have passed. `cgroup` is the path of the group that the child joins before; empty: none.
inline constexpr char kSmallMemoryWork[] = "small-memory";
// Makes `store_count` stores in `parent_dir`, which has no files, all open at once and at default
// options. Writes `record_count` records to each, and closes them. Answers with what they took
// while they were open and how long it took. The disk space is the larger one of before and after
// closing.
inline constexpr char kSmallStoresWork[] = "small-stores";
ChildWorks SpaceWorks();

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_WORKS_H_
