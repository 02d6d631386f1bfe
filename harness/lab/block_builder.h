// A builder collects the records of one block; each encoding has its own.
//
// One thread. A builder keeps its memory for the next block.
#ifndef HARNESS_LAB_BLOCK_BUILDER_H_
#define HARNESS_LAB_BLOCK_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine_race/base/assert.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/key_words.h"

namespace engine_race::lab {

class BlockBuilder {
 public:
  virtual ~BlockBuilder() = default;

  // Whether the block has room for `key` too. `key` must be above all keys added.
  virtual bool Fits(const char* key) const = 0;
  // To be called after Fits was true. May throw std::bad_alloc.
  void Add(const char* key, const char* payload) {
    ENGINE_RACE_ASSERT(count_ == 0 || std::memcmp(last_key(), key, shape_.key_bytes) < 0);
    records_.insert(records_.end(), key, key + shape_.key_bytes);
    records_.insert(records_.end(), payload, payload + shape_.payload_bytes);
    ++count_;
  }
  // Fills block[0, kBlockBytes) with the records added, at least one, and begins anew. Returns
  // the size of each record in the block, from which lookups guess where a record lies. 0: they
  // cannot.
  uint32_t Finish(char* block) {
    ENGINE_RACE_ASSERT(count_ > 0);
    std::memset(block, 0, kBlockBytes);
    const uint32_t record_bytes = Encode(block);
    records_.clear();
    count_ = 0;
    return record_bytes;
  }

  uint32_t record_count() const { return count_; }
  const char* last_key() const { return KeyAt(count_ - 1); }

 protected:
  explicit BlockBuilder(const TableShape& shape) : shape_(shape) {}
  // The encoding's part of Finish. The block is all zeros.
  virtual uint32_t Encode(char* block) const = 0;

  const TableShape& shape() const { return shape_; }
  const char* KeyAt(uint32_t rank) const {
    ENGINE_RACE_ASSERT(rank < count_);
    return records_.data() + size_t{rank} * shape_.record_bytes();
  }
  const char* PayloadAt(uint32_t rank) const { return KeyAt(rank) + shape_.key_bytes; }
  // How many bytes all the keys added and `last_key` begin with. At least one byte of the key is
  // left over.
  uint32_t PrefixWith(const char* last_key) const {
    if (count_ == 0) return 0;
    return std::min(CommonPrefix(KeyAt(0), last_key, shape_.key_bytes), shape_.key_bytes - 1);
  }

 private:
  const TableShape shape_;
  std::vector<char> records_;
  uint32_t count_ = 0;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_BUILDER_H_
