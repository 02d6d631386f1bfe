// Lays sorted records as the blocks of an extent.
//
// Every block of records is full but the last. The image is not sealed: ExtentStore::Write puts
// the block numbers and the checksums in, which depend on where the extent will lie.
//
// One thread. Owns the memory of one extent, 2 MiB, and uses it again for each image. Movable.
#ifndef ENGINE_RACE_L1_EXTENT_IMAGE_H_
#define ENGINE_RACE_L1_EXTENT_IMAGE_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/log/format.h"

namespace engine_race::l1 {

class ExtentImage {
 public:
  ExtentImage() = default;  // without memory: of no use until Create
  // kOutOfMemory.
  static Status Create(ExtentImage* image);

  // Starts a new image.
  void Begin();
  // Appends records. Keys ascend strictly over all calls since Begin. An image takes at most
  // format::kIndexExtentRecords records.
  void Append(const uint64_t* keys, const uint64_t* words, size_t count);
  // Completes the image, which has at least one record. Nothing can be appended any more.
  void Finish();

  uint32_t record_count() const { return record_count_; }
  // Blocks of records: the block of fences does not count.
  uint32_t block_count() const { return format::IndexBlocksOf(record_count_); }
  size_t size_bytes() const { return size_t{block_count() + 1} * format::kIndexBlockBytes; }
  // Of an image that has records.
  uint64_t last_key() const;
  // Aligned to kIoAlignment.
  char* data() const { return memory_.data(); }
  bool finished() const { return finished_; }

 private:
  format::IndexRecordBlock* BlockAt(uint32_t number) const;

  Region memory_;
  uint32_t record_count_ = 0;
  bool finished_ = false;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EXTENT_IMAGE_H_
