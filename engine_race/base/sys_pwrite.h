// Writes to files whose size limit the caller has looked at.
//
// Stateless; thread-safe.
#ifndef ENGINE_RACE_BASE_SYS_PWRITE_H_
#define ENGINE_RACE_BASE_SYS_PWRITE_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race::sys {

// PwriteFull for callers that have just asked CheckFileSizeLimit about the end of this write or of
// a later one: a record that takes several writes asks once. Past the limit it is a SIGXFSZ.
Status PwriteBelowLimit(int fd, const void* buffer, size_t size, uint64_t offset);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_SYS_PWRITE_H_
