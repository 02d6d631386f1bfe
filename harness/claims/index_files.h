// The files of the index in the directory of a closed store.
//
// Stateless.
#ifndef HARNESS_CLAIMS_INDEX_FILES_H_
#define HARNESS_CLAIMS_INDEX_FILES_H_

#include <cstdint>
#include <string>

namespace harness {

// Removes the root of the index, so that the next opening builds all of it. A store without a root
// is left as it is.
void RemoveIndexRoot(const std::string& store_dir);

// The disk space that the files of the index take, root included.
uint64_t IndexDiskBytes(const std::string& store_dir);

// The blocks of an index of this many keys, each block full.
uint64_t IndexBlockBytes(uint64_t key_count);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_FILES_H_
