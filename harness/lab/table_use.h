// Helpers of the files that implement Table, for blocks that are reached by pointer.
//
// Thread-safe, as Table is.
#ifndef HARNESS_LAB_TABLE_USE_H_
#define HARNESS_LAB_TABLE_USE_H_

#include "harness/lab/frame_readers.h"
#include "harness/lab/table.h"

namespace lab {

template <typename Readers, typename UseFn>
bool Table::UseFrame(uint32_t extent, uint32_t block, const UseFn& use, uint32_t* missing) const {
  Readers readers(frames_, epochs_);
  uint32_t frame;
  *missing = 0;
  if (!readers.Follow(&roots_[extent], &frame)) return false;
  *missing = block;
  if (block > 0 && !readers.Follow(&pool_->info(frame).children[block - 1], &frame)) return false;
  use(pool_->data(frame));
  return true;
}

template <typename UseFn>
Status Table::UseBlock(uint32_t extent, uint32_t block, Region* buffer, const UseFn& use) const {
  for (uint32_t loads = 0; loads < kMaxLoads; ++loads) {
    uint32_t missing = 0;
    const bool used = options_.protection == Protection::kEpoch
                          ? UseFrame<EpochReader>(extent, block, use, &missing)
                          : UseFrame<CountReader>(extent, block, use, &missing);
    if (used) return Status::Ok();
    const Status loaded = Load(extent, missing);
    if (loaded.code() == Code::kFull) break;
    ENGINE_RACE_RETURN_IF_ERROR(loaded);
  }
  ENGINE_RACE_RETURN_IF_ERROR(ReadAside(extent, block, buffer));
  use(buffer->data());
  return Status::Ok();
}

}  // namespace lab

#endif  // HARNESS_LAB_TABLE_USE_H_
