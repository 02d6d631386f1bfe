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
#include "harness/numa/memory_maps.h"

namespace harness {

// kNotSupported, saying why, unless the file is an ELF program without an interpreter. A program
// that is linked dynamically runs the text of its libraries too, which all its copies would share.
engine_race::Status CheckStaticProgram(const std::string& path);

// kInvalidArgument when blocks of the file are shared with other files. Success where the file
// system cannot say so: such ones, tmpfs among them, share none.
engine_race::Status CheckOwnExtents(const std::string& path);

// Writes a new file `target` with the bytes and the permissions of `source`, and syncs it. A file
// that had this name is replaced. kInvalidArgument where the copy shares its inode or blocks.
engine_race::Status CopyProgram(const std::string& source, const std::string& target);

// Which nodes hold the pages that the page cache has of the file. Reads what it does not have.
// kNotSupported where the kernel does not say.
engine_race::Status CachedPages(const std::string& path, NodeBytes* bytes);

// Brings the file's pages into the page cache of `nodes`, where the caller must be bound: what lies
// elsewhere is dropped and read again. kIOError when some cannot be moved, which is so while
// another process maps them.
engine_race::Status PlaceInCache(const std::string& path, const std::vector<uint32_t>& nodes);

}  // namespace harness

#endif  // HARNESS_NUMA_TEXT_COPY_H_
