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

// The blocks of records of one extent, in memory.
class RunBlocks {
 public:
  RunBlocks(const char* data, uint32_t count) : data_(data), count_(count) {}

  // Whether they have what the root says of `run`. Other keys would lead beyond the radix table,
  // other words beyond the frames.
  bool AreSound(const PagedRun& run) const {
    size_t at = 0;
    l1::KeyBounds keys = {run.min_key, run.max_key};
    for (uint32_t i = 0; i < count_; ++i) {
      const l1::RecordBlock block = At(i);
      if (block.count() > run.record_count - at) return false;
      if (!IsSoundBlock(i + 1, DataAt(i), keys, kAllSlots)) return false;
      if (i == 0 ? block.keys()[0] != run.min_key : block.keys()[0] == keys.first) return false;
      at += block.count();
      keys.first = block.keys()[block.count() - 1];
    }
    return at == run.record_count && keys.first == run.max_key;
  }
  // Calls visit(key, ref) for each record whose word is not void.
  template <typename VisitFn>
  void Visit(const PagedRun& run, const VisitFn& visit) const {
    for (uint32_t i = 0; i < count_; ++i) {
      const l1::RecordBlock block = At(i);
      for (uint32_t j = 0; j < block.count(); ++j) {
        const ValueRef ref = ValueRef::FromWord(block.words()[j]);
        if (run.Holds(ref.slot(), block.keys()[j])) visit(block.keys()[j], ref);
      }
    }
  }

 private:
  const char* DataAt(uint32_t i) const { return data_ + size_t{i} * format::kIndexBlockBytes; }
  l1::RecordBlock At(uint32_t i) const { return l1::RecordBlock(DataAt(i)); }

  const char* const data_;
  const uint32_t count_;
};

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
  const uint32_t block_count = from.block_count;
  Region memory;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_t{block_count} * format::kIndexBlockBytes,
                                               /*huge_pages=*/false, &memory, placement));
  ENGINE_RACE_RETURN_IF_ERROR(store.ReadBlocks(from.id, 1, block_count, memory.data()));
  const RunBlocks blocks(memory.data(), block_count);
  if (!blocks.AreSound(from)) return Damaged(from);
  size_t count = 0;
  uint64_t first_key = 0;
  uint64_t last_key = 0;
  blocks.Visit(from, [&](uint64_t key, ValueRef /*ref*/) {
    if (count++ == 0) first_key = key;
    last_key = key;
  });
  SortedRun made;
  if (count > 0) {
    const CellMap map = CellMap::Over(first_key, last_key, SortedRun::CellCountFor(count));
    ENGINE_RACE_RETURN_IF_ERROR(SortedRun::Create(count, map, slabs, &made, placement));
    size_t at = 0;
    blocks.Visit(from, [&](uint64_t key, ValueRef ref) {
      made.mutable_keys()[at] = key;
      made.mutable_refs()[at++].Store(ref);
    });
    made.FillCells();
  }
  *run = std::move(made);
  return Status::Ok();
}

}  // namespace engine_race
