// Writes to files whose size limit the caller has checked.
//
// Stateless; thread-safe.
#ifndef ENGINE_RACE_BASE_SYS_PWRITE_H_
#define ENGINE_RACE_BASE_SYS_PWRITE_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race::sys {

// PwriteFull without the check of the file size limit; past the limit it is a SIGXFSZ. The caller
// has just called CheckFileSizeLimit for the end of this write or of a later one. So a record of
// several writes needs one check.
Status PwriteBelowLimit(int fd, const void* buffer, size_t size, uint64_t offset);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_SYS_PWRITE_H_
