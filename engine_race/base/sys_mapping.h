// Checked system calls for files that are written by stores into a mapping. They tell whether a
// store can fail, and prevent that it does.
//
// Stateless; every function is thread-safe.
#ifndef ENGINE_RACE_BASE_SYS_MAPPING_H_
#define ENGINE_RACE_BASE_SYS_MAPPING_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race::sys {

// Whether stores into reserved pages of a mapping of the file cannot run out of space. True where
// the file system overwrites in place (ext2, ext3, ext4, XFS) or keeps the pages themselves
// (tmpfs). *type_magic is the file system's type, as statfs gives it.
Status MappedStoresKeepSpace(int fd, bool* keep, uint64_t* type_magic);

// Gives [offset, offset + size) disk space of its own where another file shares it (reflinks). A
// store into shared space needs new space, which a full disk refuses with SIGBUS. Does nothing
// where the file system has no such call.
Status UnshareRange(int fd, uint64_t offset, uint64_t size);

// Makes the kernel do all that a store into each page of [begin, begin + size) would need. Returns
// an error where the store would be a SIGBUS. Both arguments are multiples of the page size. Does
// nothing before Linux 5.14: *populated is then false.
Status PopulateForStores(void* begin, size_t size, bool* populated);

// Keeps the kernel from reading ahead and around what is touched or read: `begin` is the mapping,
// `size` bytes long, of the file. Advice only.
void AdviseNoReadAhead(int fd, void* begin, size_t size);

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_SYS_MAPPING_H_
