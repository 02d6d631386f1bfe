// A lookup that may need a block from disk, and the memory that the block is read into.
//
// A lookup in a paged part answers Code::kIncomplete when a block that it needs lies in no frame.
// It then says here which block that is. The caller reads the block into a buffer of its own,
// outside all locks, and hands it to Index::Accept. Then it repeats the lookup. That lookup finds
// the block here, so it needs no frame. It may ask for one more block: the first block of an extent
// leads to the block that holds the key. A part that was merged meanwhile has another extent; then
// the lookup begins anew.
//
// For one key. One thread at a time.
#ifndef ENGINE_RACE_INDEX_BLOCK_LOOKUP_H_
#define ENGINE_RACE_INDEX_BLOCK_LOOKUP_H_

#include <cstdint>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/l1/extent_id.h"

namespace engine_race {

class BlockLookup {
 public:
  BlockLookup() = default;

  // The calls of the index. Want names a block to be read next.
  void Want(const l1::ExtentId& extent, uint32_t block) {
    extent_ = extent;
    block_ = block;
    buffer_ = nullptr;
  }
  // The bytes of a block of the extent, if this lookup has read one.
  const char* HeldOf(const l1::ExtentId& extent) const {
    return buffer_ != nullptr && extent_ == extent ? buffer_ : nullptr;
  }
  // Says that `buffer` has the wanted block, which is whole.
  void Hold(char* buffer) {
    ENGINE_RACE_ASSERT(is_wanting() && buffer != nullptr);
    buffer_ = buffer;
  }
  void Reset() { *this = BlockLookup(); }
  // Notes that the block that can hold the key was in a frame. TakeHit answers true once after it.
  void NoteHit() { is_hit_ = true; }
  bool TakeHit() { return std::exchange(is_hit_, false); }

  // Whether it has not wanted a block yet.
  bool is_fresh() const { return !extent_.valid(); }
  // Whether a block has to be read before the lookup is repeated.
  bool is_wanting() const { return extent_.valid() && buffer_ == nullptr; }
  const l1::ExtentId& extent() const { return extent_; }
  uint32_t block() const { return block_; }

 private:
  l1::ExtentId extent_;
  uint32_t block_ = 0;
  char* buffer_ = nullptr;
  bool is_hit_ = false;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BLOCK_LOOKUP_H_
