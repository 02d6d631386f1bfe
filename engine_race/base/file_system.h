// Which mount of which file system an open file lies on.
//
// Stateless and thread-safe.
#ifndef ENGINE_RACE_BASE_FILE_SYSTEM_H_
#define ENGINE_RACE_BASE_FILE_SYSTEM_H_

#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race::sys {

struct MountIdentity {
  // Equal for all files of the file system, through any of its mount points, for as long as it
  // stays mounted somewhere.
  uint64_t word = 0;
  // True: mounting the file system again gives another word. False where the kernel does not tell:
  // the word then names the device or the server and nothing else.
  bool recognised = false;
};

// Of the file system that the open file or directory `fd` lies on. For a block device: of its
// attachment to this machine, or of the medium in it.
Status IdentifyMount(int fd, MountIdentity* identity);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_FILE_SYSTEM_H_
