// Which mount of which file system an open file lies on, and what space it has there.
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

// Free space of the file system that `fd` lies on, without what it keeps for privileged users. The
// most that there is where the file system does not tell.
Status FreeBytes(int fd, uint64_t* free_bytes);
// Whether the regular file shares a block with another one. False where the file system does not
// tell.
bool SharesBlocks(int fd) noexcept;

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_FILE_SYSTEM_H_
