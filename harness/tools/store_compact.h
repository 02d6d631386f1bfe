// The compaction of bin/store: gives back the space of a store that no process has open.
//
// Thread safety: one call at a time for a store.
#ifndef HARNESS_TOOLS_STORE_COMPACT_H_
#define HARNESS_TOOLS_STORE_COMPACT_H_

#include <string>

namespace engine_race::harness {

// Opens the store in `dir`, gives the space of overwritten and deleted records back, and prints how
// much that was. Returns the exit code: 0, 1 for a damaged store, else 2.
int RunCompact(const std::string& dir);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_COMPACT_H_
