// How much memory this process may use.
//
// Thread-safe. MemoryLimitFrom is a pure function of the files that it is given.
#ifndef ENGINE_RACE_BASE_MEMORY_LIMIT_H_
#define ENGINE_RACE_BASE_MEMORY_LIMIT_H_

#include <cstdint>

#include "engine_race/base/control_groups.h"

namespace engine_race {

inline constexpr uint64_t kNoMemoryLimit = ~uint64_t{0};

// The least limit of the process's groups and of all visible groups above them, in bytes. The page
// cache of the files that they use counts against it. Cgroup v2 has it in "memory.max" and
// "memory.high", v1 in "memory.limit_in_bytes". kNoMemoryLimit where there is none or the files
// make no sense. `read` is called for the files that VisitControlGroups reads, and for those.
uint64_t MemoryLimitFrom(const FileReaderFn& read);

// MemoryLimitFrom with this process's files, or the machine's memory if that is less.
uint64_t MemoryLimit() noexcept;

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_MEMORY_LIMIT_H_
