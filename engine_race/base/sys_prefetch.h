// The limit of PrefetchFile, and how to wait for what it has begun.
//
// Stateless; thread-safe.
#ifndef ENGINE_RACE_BASE_SYS_PREFETCH_H_
#define ENGINE_RACE_BASE_SYS_PREFETCH_H_

#include <cstdint>

namespace engine_race::sys {

// Of one file, so that a large one does not push out of the page cache what was read before it.
inline constexpr uint64_t kMaxPrefetchBytes = uint64_t{64} << 20;

// Waits for the last page that PrefetchFile has begun to read. Devices end reads about in the order
// in which they began. So the caller waits about once. A reader of the whole file that follows the
// device waits again and again.
void AwaitPrefetched(int fd);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_SYS_PREFETCH_H_
