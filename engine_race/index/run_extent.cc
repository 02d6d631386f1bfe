#include "engine_race/index/run_extent.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/l1/key_block.h"

namespace engine_race {

namespace {

// The words of a run are handed to the image in pieces of this size.
constexpr size_t kPiece = 256;
// Runs do not know how many records their bucket has.
constexpr uint64_t kAllSlots = ~uint64_t{0};

Status Damaged(const PagedRun& run) {
  return Status::Corruption("key_index: the extent at place " + std::to_string(run.id.place) +
                            " has other records than the root says");
}

bool AscendWithin(const uint64_t* keys, uint32_t count, const l1::KeyBounds& bounds) {
  return keys[0] >= bounds.first && keys[count - 1] <= bounds.last &&
         std::is_sorted(keys, keys + count, std::less_equal<>());
}

}  // namespace

Status WriteRun(const SortedRun& run, const FrameSlots& slots, l1::ExtentStore* store,
                l1::ExtentImage* image, l1::ExtentId* id) {
  ENGINE_RACE_ASSERT(run.count() > 0);
  if (run.count() > format::kIndexExtentRecords) {
    return Status::NotSupported("index: a run of " + std::to_string(run.count()) +
                                " records does not fit an extent");
  }
  image->Begin();
  std::array<uint64_t, kPiece> words;
  for (size_t begin = 0; begin < run.count(); begin += kPiece) {
    const size_t count = std::min(kPiece, run.count() - begin);
    for (size_t i = 0; i < count; ++i) words[i] = slots.SlotOf(run.refs()[begin + i]).word();
    image->Append(run.keys() + begin, words.data(), count);
  }
  image->Finish();
  return store->Write(image, id);
}

bool IsSoundBlock(uint32_t block, const char* data, const l1::KeyBounds& keys, uint64_t slot_end) {
  if (block == 0) {
    const l1::FenceBlock fences(data);
    return AscendWithin(fences.first_keys(), fences.block_count(), keys);
  }
  const l1::RecordBlock records(data);
  bool has_only_slots = true;
  for (uint32_t i = 0; i < records.count(); ++i) {
    const uint64_t word = records.words()[i];
    has_only_slots &= ValueRef::IsSlotWord(word) && ValueRef::FromWord(word).slot() < slot_end;
  }
  return has_only_slots && AscendWithin(records.keys(), records.count(), keys);
}

Status ReadRun(const PagedRun& from, const l1::ExtentStore& store, SlabAllocator* slabs,
               const Placement& placement, SortedRun* run) {
  const uint32_t block_count = from.block_count();
  Region memory;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_t{block_count} * format::kIndexBlockBytes,
                                               /*huge_pages=*/false, &memory, placement));
  ENGINE_RACE_RETURN_IF_ERROR(store.ReadBlocks(from.id, 1, block_count, memory.data()));
  const CellMap map =
      CellMap::Over(from.min_key, from.max_key, SortedRun::CellCountFor(from.record_count));
  SortedRun made;
  ENGINE_RACE_RETURN_IF_ERROR(SortedRun::Create(from.record_count, map, slabs, &made, placement));
  size_t at = 0;
  for (uint32_t i = 0; i < block_count; ++i) {
    const char* const data = memory.data() + size_t{i} * format::kIndexBlockBytes;
    const l1::RecordBlock block(data);
    if (block.count() > from.record_count - at) return Damaged(from);
    // Other keys would lead beyond the radix table, other words beyond the frames.
    const uint64_t first_key = at == 0 ? from.min_key : made.keys()[at - 1];
    const bool is_good = IsSoundBlock(i + 1, data, {first_key, from.max_key}, kAllSlots);
    if (!is_good || (at > 0 && block.keys()[0] == first_key)) return Damaged(from);
    for (uint32_t j = 0; j < block.count(); ++j, ++at) {
      made.mutable_keys()[at] = block.keys()[j];
      made.mutable_refs()[at].Store(ValueRef::FromWord(block.words()[j]));
    }
  }
  const bool is_whole = at == from.record_count && made.keys()[0] == from.min_key &&
                        made.keys()[at - 1] == from.max_key;
  if (!is_whole) return Damaged(from);
  made.FillCells();
  *run = std::move(made);
  return Status::Ok();
}

}  // namespace engine_race
