// How much memory the control groups of this process let it use.
//
// Thread-safe. MemoryLimitFrom is a pure function of the files that it is given.
#ifndef HARNESS_SYSTEM_MEMORY_LIMIT_H_
#define HARNESS_SYSTEM_MEMORY_LIMIT_H_

#include <cstdint>
#include <optional>

#include "engine_race/base/control_groups.h"

namespace harness {

// The least limit of the process's groups and of all visible groups above them: "memory.max" of
// cgroup v2, "memory.limit_in_bytes" of v1. Nothing where there is none.
std::optional<uint64_t> MemoryLimitFrom(const engine_race::FileReaderFn& read);
// With this process's files.
std::optional<uint64_t> MemoryLimitBytes();

}  // namespace harness

#endif  // HARNESS_SYSTEM_MEMORY_LIMIT_H_
