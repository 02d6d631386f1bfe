// Reads of files into the page cache before their content is needed.
//
// Stateless; every function is thread-safe.
#ifndef ENGINE_RACE_BASE_SYS_PREFETCH_H_
#define ENGINE_RACE_BASE_SYS_PREFETCH_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"

namespace engine_race::sys {

// The most that one call of Prefetch asks for. More could push out of the page cache what was read
// before.
inline constexpr uint64_t kMaxPrefetchBytes = uint64_t{64} << 20;

// Asks for [offset, offset + size), up to kMaxPrefetchBytes, to be read into the page cache; advice
// only.
void Prefetch(int fd, uint64_t offset, uint64_t size);
// Prefetch of what a file has beside its holes, from its beginning and up to kMaxPrefetchBytes. A
// missing file is no error.
Status PrefetchFile(int dir_fd, const std::string& name);
// Waits for the last page that PrefetchFile has begun to read. Devices end reads in about the order
// in which they began, so all pages are there then. A reader that begins with the first page would
// wait for the device again and again.
void AwaitPrefetched(int fd);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_SYS_PREFETCH_H_
