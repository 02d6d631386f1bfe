// A table on disk: a file of extents, built from sorted records, immutable, replaced as a whole.
//
// Layout: a header block; extents of 2 MiB, the index of each first, its blocks of records behind
// it, the last extent as long as it needs; then the root, which is the last key and the number of
// blocks of each extent. Every block and the root carry a checksum that is seeded with the table
// and the place, so that a block that lies elsewhere fails. A file is built under another name and
// gets its own when it is whole and on the device, in the place of an older one, which whoever has
// it open keeps; what an interrupted building leaves is swept away by the next.
//
// The index of an extent is a block like the others: its keys are the last keys of the blocks of
// records, so that the first one at or above a key leads to the only block that can hold it.
#ifndef ENGINE_RACE_L1_EXTENT_FILE_H_
#define ENGINE_RACE_L1_EXTENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/l1/block_builder.h"
#include "engine_race/l1/extent_root.h"
#include "engine_race/l1/table_shape.h"

namespace engine_race::l1 {

// One thread. Owns its file.
class ExtentFileBuilder {
 public:
  // Builds `name` in the directory, which is there, or another one, when Finish has succeeded. One
  // builder of a name at a time.
  static Status Create(int dir_fd, const std::string& name, const TableShape& shape,
                       const BlockEncoding& encoding, std::unique_ptr<ExtentFileBuilder>* builder);

  // Keys ascend strictly: kInvalidArgument otherwise. kFull, kIOError, kOutOfMemory. After a
  // failure there is nothing to be added or finished any more.
  Status Add(const char* key, const char* payload);
  // Makes the table, and makes it durable.
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
  // kCorruption for what is no table or a damaged one, kNotSupported for another version.
  static Status Open(int dir_fd, const std::string& name, std::unique_ptr<ExtentFile>* file);

  const TableShape& shape() const { return shape_; }
  // The number of the encoding that the file was built with: see BlockEncoding.
  uint32_t encoding() const { return encoding_; }
  uint64_t table_id() const { return table_id_; }
  uint64_t record_count() const { return record_count_; }
  uint32_t extent_count() const { return static_cast<uint32_t>(block_counts_.size()); }
  // Of records, in an extent.
  uint32_t block_count(uint32_t extent) const { return block_counts_[extent]; }
  const ExtentRoot& root() const { return root_; }

  // Reads block 0, the index, or 1 to block_count(extent), into kBlockBytes at an address that is a
  // multiple of kIoAlignment. kCorruption names file, extent and block.
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

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EXTENT_FILE_H_
