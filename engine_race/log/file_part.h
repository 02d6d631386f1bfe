// Parts of files that are read and written around the page cache, by whole blocks. A block may have
// more than the part.
//
// Stateless functions. A part goes without a copy if it is whole blocks in memory aligned to
// kIoAlignment.
#ifndef ENGINE_RACE_LOG_FILE_PART_H_
#define ENGINE_RACE_LOG_FILE_PART_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"

namespace engine_race {

// Reads a part. *read_bytes: how many of its bytes the file has.
Status ReadPart(const io::File& file, char* buffer, uint64_t size_bytes, uint64_t offset,
                size_t* read_bytes);
// ReadPart of a part that must be there: see io::File::Read. An aligned buffer of `buffer_bytes`
// takes the blocks themselves where they fit. Otherwise another one is allocated for them.
Status ReadWholePart(const io::File& file, char* buffer, uint64_t size_bytes, uint64_t offset,
                     uint64_t buffer_bytes = 0);

// Writes a part. The rest of its blocks is read first and written again, so nobody may write there
// meanwhile. For readers it stays as it was.
Status WritePart(const io::File& file, const char* data, uint64_t size_bytes, uint64_t offset);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FILE_PART_H_
