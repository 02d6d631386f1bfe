// A table on disk: a file of extents, built from sorted records. It is immutable and replaced as a
// whole.
//
// Layout: a header block, then extents, then the root. An extent of 2 MiB has its index first and
// its blocks of records behind it. The last extent is as long as it needs to be. The root has the
// last key and the number of blocks of each extent. Every block and the root carry a checksum that
// is seeded with the table and their position. So a block that lies at the wrong position fails its
// checksum.
//
// A file is built under another name. It gets its own name when it is complete and durable, and
// then replaces an older file. Readers that have the older file open keep it. The next build
// removes what an interrupted build has left.
//
// The index of an extent is a block like the others. Its keys are the last keys of the blocks of
// records. So the first key at or above the one looked for leads to the only block that can hold
// it.
#ifndef HARNESS_LAB_EXTENT_FILE_H_
#define HARNESS_LAB_EXTENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "harness/lab/block_builder.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/extent_root.h"

namespace lab {

// One thread. Owns its file.
class ExtentFileBuilder {
 public:
  // Builds `name` in the directory. The file, or its replacement, is there when Finish has
  // succeeded. One builder of a name at a time.
  static Status Create(int dir_fd, const std::string& name, const TableShape& shape,
                       const BlockEncoding& encoding, std::unique_ptr<ExtentFileBuilder>* builder);

  // Adds a record. Keys must ascend strictly, else kInvalidArgument. kFull, kIOError, kOutOfMemory.
  // After a failure the builder is of no more use.
  Status Add(const char* key, const char* payload);
  // Completes the table and makes it durable.
  Status Finish();

 private:
  ExtentFileBuilder(int dir_fd, const std::string& name, const TableShape& shape,
                    const BlockEncoding& encoding);
  Status FinishBlock();
  Status FinishExtent();
  Status WriteRootAndHeader();

  const int dir_fd_;
  const std::string name_;
  const TableShape shape_;
  const uint32_t encoding_;  // its number
  uint64_t table_id_ = 0;
  io::File file_;
  Region extent_;
  std::unique_ptr<BlockBuilder> records_;
  std::unique_ptr<BlockBuilder> index_;
  std::vector<char> last_keys_;         // of the extents
  std::vector<uint32_t> block_counts_;  // likewise, of records' blocks
  uint64_t record_count_ = 0;
  uint64_t end_offset_ = kBlockBytes;  // of the extents
  char last_key_[kMaxKeyBytes];
  bool broken_ = false;
};

// Const calls from any thread. Owns its file.
class ExtentFile {
 public:
  // kCorruption if the file is damaged or not a table, kNotSupported for another format version.
  static Status Open(int dir_fd, const std::string& name, std::unique_ptr<ExtentFile>* file);

  const TableShape& shape() const { return shape_; }
  // The number of the encoding that the file was built with: see BlockEncoding.
  uint32_t encoding() const { return encoding_; }
  uint64_t table_id() const { return table_id_; }
  uint64_t record_count() const { return record_count_; }
  uint32_t extent_count() const { return static_cast<uint32_t>(block_counts_.size()); }
  // How many blocks of records an extent has.
  uint32_t block_count(uint32_t extent) const { return block_counts_[extent]; }
  const ExtentRoot& root() const { return root_; }

  // Reads a block into kBlockBytes of memory, aligned to kIoAlignment. Block 0 is the index, blocks
  // 1 to block_count(extent) hold records. kCorruption names file, extent and block.
  Status ReadBlock(uint32_t extent, uint32_t block, char* data) const;

 private:
  ExtentFile() = default;
  Status ReadHeaderAndRoot();

  io::File file_;
  TableShape shape_;
  uint32_t encoding_ = 0;
  uint64_t table_id_ = 0;
  uint64_t record_count_ = 0;
  ExtentRoot root_;
  std::vector<uint32_t> block_counts_;
};

}  // namespace lab

#endif  // HARNESS_LAB_EXTENT_FILE_H_
