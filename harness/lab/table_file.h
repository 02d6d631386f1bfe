// The file of a table: extents of blocks, built from sorted records. A table loads it as a whole.
//
// An extent of 2 MiB has its index first and its blocks of records behind it. The last extent is as
// long as it needs to be. The index is a block like the others. Its keys are the last keys of the
// blocks of records. So the first key at or above the one looked for leads to the only block that
// can hold it.
//
// The program that builds a file also reads it, in a directory of its own. Files have no checksums:
// the payload of each lookup is checked.
#ifndef HARNESS_LAB_TABLE_FILE_H_
#define HARNESS_LAB_TABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "harness/lab/block_builder.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/engine_names.h"

namespace engine_race::lab {

// One thread. Owns its file.
class TableFileBuilder {
 public:
  // Builds `name` in the directory. The file is there when Finish has succeeded. kInvalidArgument,
  // kIOError, kOutOfMemory.
  static Status Create(int dir_fd, const std::string& name, Encoding encoding,
                       const TableShape& shape, std::unique_ptr<TableFileBuilder>* builder);

  // Adds a record, whose key is above the one before it.
  Status Add(const char* key, const char* payload);
  Status Finish();

 private:
  TableFileBuilder() = default;
  void FinishBlock();
  Status FinishExtent();

  int dir_fd_ = -1;
  std::string name_;
  uint32_t key_bytes_ = 0;
  io::File file_;
  Region extent_;
  std::unique_ptr<BlockBuilder> records_;
  std::unique_ptr<BlockBuilder> index_;
  uint64_t end_offset_ = 0;
};

// Const calls from any thread. Owns its file.
class TableFile {
 public:
  static Status Open(int dir_fd, const std::string& name, TableFile* file);

  uint64_t block_count() const { return block_count_; }
  uint32_t extent_count() const {
    return static_cast<uint32_t>((block_count_ + kBlocksPerExtent - 1) / kBlocksPerExtent);
  }
  // Reads an extent into kExtentBytes of memory, aligned to kIoAlignment. *record_blocks is how
  // many blocks of records follow its index.
  Status ReadExtent(uint32_t extent, char* data, uint32_t* record_blocks) const;

 private:
  io::File file_;
  uint64_t block_count_ = 0;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TABLE_FILE_H_
