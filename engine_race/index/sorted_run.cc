#include "engine_race/index/sorted_run.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/key_scan.h"

namespace engine_race {

Status SortedRun::Create(size_t key_count, const CellMap& map, SlabAllocator* slabs, SortedRun* run,
                         const Placement& placement) {
  ENGINE_RACE_ASSERT(key_count > 0);
  const size_t table_entries = size_t{map.cell_count()} + 1;
  // Padding follows the last key, because CountBelow may read beyond it. It is not below any key
  // that is looked for.
  const size_t padded_count = key_count + kScanKeyCount;
  const size_t bytes = padded_count * sizeof(uint64_t) + key_count * sizeof(RefWord) +
                       table_entries * sizeof(uint32_t);
  std::unique_ptr<Memory, MemoryDeleter> memory(new (std::nothrow) Memory);
  if (memory == nullptr) return Status::OutOfMemory("index: no memory for a part");
  PartSlice& slice = memory->slice;
  ENGINE_RACE_RETURN_IF_ERROR(slabs == nullptr ? PartSlice::Allocate(bytes, &slice, placement)
                                               : slabs->Allocate(bytes, &slice));
  run->count_ = key_count;
  run->cell_count_ = map.cell_count();
  run->keys_ = reinterpret_cast<uint64_t*>(slice.data());
  run->refs_ = reinterpret_cast<RefWord*>(run->keys_ + padded_count);
  // CountBelow needs the padding on the same side of 2^63 as the last key.
  const uint64_t above = map.max_key() | (~uint64_t{0} >> 1);
  std::fill_n(run->keys_ + key_count, kScanKeyCount, above);
  run->cells_ = reinterpret_cast<uint32_t*>(run->refs_ + key_count);
  run->view_ = RunView(map, key_count, run->keys_, run->refs_, run->cells_);
  run->memory_ = std::move(memory);
  return Status::Ok();
}

void SortedRun::MemoryDeleter::operator()(Memory* memory) const noexcept {
  std::unique_ptr<Memory> gone(memory);
  l1::Limbo* const limbo = gone->limbo;
  if (limbo == nullptr) return;
  const size_t bytes = gone->slice.footprint_bytes();
  limbo->Retire(std::move(gone), bytes);
}

void SortedRun::FillCells() {
  uint32_t next_cell = 0;
  for (size_t i = 0; i < count_; ++i) {
    ENGINE_RACE_ASSERT(i == 0 || keys_[i - 1] < keys_[i]);
    const uint32_t cell = view_.map().Of(keys_[i]);
    while (next_cell <= cell) cells_[next_cell++] = static_cast<uint32_t>(i);
  }
  const uint32_t end = cell_count_;
  while (next_cell <= end) cells_[next_cell++] = static_cast<uint32_t>(count_);
  ENGINE_RACE_ASSERT(cells_[0] == 0 && cells_[end] == count_);
}

}  // namespace engine_race
