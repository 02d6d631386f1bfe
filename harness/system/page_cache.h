// Empties the page cache between two phases: writes it to the device, or drops it, so that the next
// phase starts cold.
//
// Stateless. It acts on the whole machine if it has the rights.
#ifndef HARNESS_SYSTEM_PAGE_CACHE_H_
#define HARNESS_SYSTEM_PAGE_CACHE_H_

#include <string>

namespace engine_race::harness {

// Syncs, then drops the page cache of the whole machine. Without the rights for that, drops it for
// the regular files directly in `dir`. Returns "drop_caches", "fadvise" or why files of `dir` are
// still in memory. On a tmpfs or ramfs it does nothing, because files have no other place there.
std::string DropPageCache(const std::string& dir);

// The second way alone: for a program that runs beside others, whose cache it must not drop.
std::string DropFilesOf(const std::string& dir);

// Writes what the page cache has of the file system of `dir` to its device. False on failure.
bool SyncFileSystem(const std::string& dir);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_PAGE_CACHE_H_
