#include "engine_race/l1/extent_image.h"

#include <algorithm>
#include <functional>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

using format::IndexFenceBlock;
using format::IndexRecordBlock;
using format::kIndexBlockRecords;

Status ExtentImage::Create(ExtentImage* image) {
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kIndexExtentBytes, /*huge_pages=*/false, &image->memory_));
  image->Begin();
  return Status::Ok();
}

void ExtentImage::Begin() {
  record_count_ = 0;
  finished_ = false;
}

IndexRecordBlock* ExtentImage::BlockAt(uint32_t number) const {
  ENGINE_RACE_ASSERT(number > 0 && number <= format::kIndexFences);
  return reinterpret_cast<IndexRecordBlock*>(memory_.data() +
                                             size_t{number} * format::kIndexBlockBytes);
}

void ExtentImage::Append(const uint64_t* keys, const uint64_t* words, size_t count) {
  ENGINE_RACE_ASSERT(memory_.data() != nullptr && !finished_);
  ENGINE_RACE_ASSERT(count <= format::kIndexExtentRecords - record_count_);
  ENGINE_RACE_ASSERT(count == 0 || record_count_ == 0 || last_key() < keys[0]);
  ENGINE_RACE_ASSERT(std::adjacent_find(keys, keys + count, std::greater_equal<>()) ==
                     keys + count);
  while (count > 0) {
    IndexRecordBlock* const block = BlockAt(1 + record_count_ / kIndexBlockRecords);
    const uint32_t used = record_count_ % kIndexBlockRecords;
    const size_t taken = std::min<size_t>(count, kIndexBlockRecords - used);
    std::copy_n(keys, taken, block->keys + used);
    std::copy_n(words, taken, block->words + used);
    record_count_ += static_cast<uint32_t>(taken);
    keys += taken;
    words += taken;
    count -= taken;
  }
}

void ExtentImage::Finish() {
  ENGINE_RACE_ASSERT(record_count_ > 0 && !finished_);
  const uint32_t blocks = block_count();
  auto* const fences = reinterpret_cast<IndexFenceBlock*>(memory_.data());
  fences->header = {0, blocks, 0};
  // Unused places are zero, whatever an earlier image had there.
  std::fill_n(fences->first_keys, format::kIndexFences, 0);
  for (uint32_t number = 1; number <= blocks; ++number) {
    IndexRecordBlock* const block = BlockAt(number);
    const uint32_t before = (number - 1) * kIndexBlockRecords;
    const uint32_t count = std::min(record_count_ - before, kIndexBlockRecords);
    block->header = {0, count, number};
    std::fill(block->keys + count, block->keys + kIndexBlockRecords, 0);
    std::fill(block->words + count, block->words + kIndexBlockRecords, 0);
    fences->first_keys[number - 1] = block->keys[0];
  }
  finished_ = true;
}

uint64_t ExtentImage::last_key() const {
  ENGINE_RACE_ASSERT(record_count_ > 0);
  return BlockAt(block_count())->keys[(record_count_ - 1) % kIndexBlockRecords];
}

}  // namespace engine_race::l1
