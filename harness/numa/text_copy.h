// Copies of a program that share no page and no block with the original. The pages of a copy lie in
// the memory of the node where the copier runs.
//
// The page cache keeps the pages of a file by its inode, on the node of the process that wrote or
// first read them. So an instance has text of its own only if it runs a file of its own. The text
// is near only if the file was copied under the instance's memory policy. Stateless; call each from
// one thread.
#ifndef HARNESS_NUMA_TEXT_COPY_H_
#define HARNESS_NUMA_TEXT_COPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/system/memory_maps.h"

namespace engine_race::harness {

// kNotSupported, saying why, unless the file is an ELF program without an interpreter. A program
// that is linked dynamically runs the text of its libraries too, which all its copies would share.
Status CheckStaticProgram(const std::string& path);

// kInvalidArgument when blocks of the file are shared with other files. Success where the file
// system does not list blocks. tmpfs has none to share; of ZFS and NFS this is not known, but the
// pages of the file are its own there too.
Status CheckOwnExtents(const std::string& path);

// Writes a new file `target` with the bytes and the permissions of `source`, and syncs it. A file
// that had this name is replaced, but only by a copy without a fault. kInvalidArgument where the
// copy shares its inode or blocks.
Status CopyProgram(const std::string& source, const std::string& target);

// Which nodes hold the file's pages in the page cache. Pages that are not there yet are read.
// kNotSupported where the kernel has no NUMA, kIOError when it leaves pages of the file out.
Status CachedPages(const std::string& path, NodeBytes* bytes);

// Brings the file's pages into the page cache of `nodes`, where the caller must be bound: what lies
// elsewhere is dropped and read again. kIOError when some cannot be moved, which is so while
// another process maps them.
Status PlaceInCache(const std::string& path, const std::vector<uint32_t>& nodes);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_TEXT_COPY_H_
