// Reads files once, past the page cache where the file system allows it. So caches behind the
// device hold them as far as they can. Hosts of virtual machines have such caches. Of two stores
// they tend to hold the one that was written last.
//
// Stateless.
#ifndef HARNESS_SYSTEM_READ_THROUGH_H_
#define HARNESS_SYSTEM_READ_THROUGH_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"

namespace harness {

// Reads every file in and below a directory in whole MiB, except for its holes and for what is
// behind the last whole MiB. *read_bytes is what it read. A file that is gone before it is opened
// is left out. kIOError, kOutOfMemory.
engine_race::Status ReadThrough(const std::string& dir, uint64_t* read_bytes);

}  // namespace harness

#endif  // HARNESS_SYSTEM_READ_THROUGH_H_
