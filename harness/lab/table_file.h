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
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harness/lab/block_shape.h"

namespace engine_race::lab {

// Owns its file.
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

// The root of a table: which extent can hold a key.
//
// The root has the last key of each extent, and of each last key the significant word. A search
// looks at the keys only where words are equal. The words lie in one array, eight to a cache line,
// so that the root of a table in use stays in the nearest cache.
//
// Thread-safe once it is built.
class ExtentRoot {
 public:
  // `last_keys` has the last key of each extent, one behind the other. May throw std::bad_alloc.
  void Build(std::vector<char> last_keys, uint32_t key_bytes);

  // The only extent that can hold `key`: the first one whose last key is at or above it. count()
  // when there is none.
  uint32_t Find(const char* key) const {
    if (prefix_bytes_ > 0) {
      const int side = std::memcmp(key, last_keys_.data(), prefix_bytes_);
      if (side != 0) return side < 0 ? 0 : count_;
    }
    const uint64_t word = WordAfter(key, key_bytes_, prefix_bytes_);
    const uint64_t* begin = words_.data();
    uint32_t count = count_;
    while (count > kCounted) {
      const uint32_t half = count / 2;
      begin += begin[half - 1] < word ? half : 0;
      count -= half;
    }
    auto extent = static_cast<uint32_t>(begin - words_.data());
    for (uint32_t i = 0; i < kCounted; ++i) extent += begin[i] < word;
    while (extent < count_ && words_[extent] == word && LastKeyBelow(extent, key)) [[unlikely]] {
        ++extent;
      }
    return extent;
  }

  // Guesses which of the extent's `count` blocks can hold `key`. Right if the keys are spread
  // evenly.
  uint32_t GuessBlock(uint32_t extent, const char* key, uint32_t count) const {
    return GuessRank({extent > 0 ? words_[extent - 1] : 0, words_[extent]},
                     WordAfter(key, key_bytes_, prefix_bytes_), count);
  }

  const char* LastKey(uint32_t extent) const {
    return last_keys_.data() + size_t{extent} * key_bytes_;
  }
  uint32_t count() const { return count_; }

 private:
  // The last eight words are compared one after another instead of halved further.
  static constexpr uint32_t kCounted = 8;

  bool LastKeyBelow(uint32_t extent, const char* key) const {
    return std::memcmp(LastKey(extent), key, key_bytes_) < 0;
  }

  uint32_t key_bytes_ = 0;
  uint32_t prefix_bytes_ = 0;
  uint32_t count_ = 0;
  // The significant words of the extents' last keys, and kCounted more words that are above all
  // others.
  std::vector<uint64_t> words_;
  std::vector<char> last_keys_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TABLE_FILE_H_
