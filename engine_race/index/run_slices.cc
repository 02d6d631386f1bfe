#include "engine_race/index/run_slices.h"

#include <algorithm>
#include <string>

#include "engine_race/base/assert.h"
#include "engine_race/index/block_frames.h"
#include "engine_race/index/run_extent.h"
#include "engine_race/l1/key_block.h"

namespace engine_race {

namespace {

constexpr uint32_t kBlockRecords = format::kIndexBlockRecords;
// Of one read by a walk that reads ahead: 256 KiB, with which disks here come near their rate.
constexpr uint32_t kAheadBlocks = 64;

// The number of the only block that can hold `key`, or 1.
uint32_t BlockOf(const std::vector<uint64_t>& first_keys, uint64_t key) {
  const auto above = std::upper_bound(first_keys.begin(), first_keys.end(), key);
  return std::max<uint32_t>(1, static_cast<uint32_t>(above - first_keys.begin()));
}

// Appends the keys of a block, and read(word) for each of its words. `held` may be null: see
// PagedRun.
template <typename ReadFn, typename Slice>
void AddBlock(const char* data, const HeldSlots* held, uint64_t births, const ReadFn& read,
              Slice* slice) {
  const l1::RecordBlock block(data);
  const auto* const words = reinterpret_cast<const RefWord*>(block.words());
  const size_t before = slice->keys.size();
  if (held == nullptr) {
    slice->keys.insert(slice->keys.end(), block.keys(), block.keys() + block.count());
    slice->refs.resize(before + block.count());
    for (uint32_t i = 0; i < block.count(); ++i) slice->refs[before + i].Store(read(words[i]));
    return;
  }
  for (uint32_t i = 0; i < block.count(); ++i) {
    const ValueRef ref = read(words[i]);
    if (!held->Holds(ref.slot(), births, block.keys()[i])) continue;
    slice->keys.push_back(block.keys()[i]);
    slice->refs.emplace_back();
    slice->refs.back().Store(ref);
  }
}

}  // namespace

const std::vector<uint64_t>* RunSlices::FencesOf(const PagedRun& run, const BlockFrames& frames) {
  for (auto each = fences_.begin(); each != fences_.end(); ++each) {
    if (each->extent != run.id) continue;
    fences_.splice(fences_.end(), fences_, each);
    return &each->first_keys;
  }
  const char* const hot = frames.FencesOf(run);
  if (hot == nullptr) return nullptr;
  const l1::FenceBlock block(hot);
  fences_.push_back({run.id, {block.first_keys(), block.first_keys() + block.block_count()}});
  return &fences_.back().first_keys;
}

const RunSlices::Slice* RunSlices::SliceOf(const PagedRun& run, uint32_t first_block,
                                           uint32_t block_count) {
  for (auto each = slices_.begin(); each != slices_.end(); ++each) {
    if (each->extent == run.id && each->first_block <= first_block &&
        each->first_block + each->block_count >= first_block + block_count) {
      slices_.splice(slices_.end(), slices_, each);
      return &*each;
    }
  }
  return nullptr;
}

void RunSlices::BeginCall() {
  while (fences_.size() > 1) fences_.pop_front();
  while (slices_.size() > 1) slices_.pop_front();
}

bool RunSlices::StopAhead() {
  if (permits_ == nullptr) return false;
  permits_->release();
  permits_ = nullptr;
  slices_.clear();
  return true;
}

bool RunSlices::Find(const PagedRun& run, const BlockFrames& frames, const FrameSlots& slots,
                     WantedKeys* wanted, RunSpan* span) {
  *span = RunSpan();
  if (wanted->last < run.min_key || wanted->first > run.max_key) return true;
  const std::vector<uint64_t>* const first_keys = FencesOf(run, frames);
  if (first_keys == nullptr) {
    wanted_ = {run.id, 0, 1, run.block_count + 1, {run.min_key, run.max_key}, run.births, run.held};
    // A walk that comes from the run before wants the first blocks next.
    if (permits_ != nullptr && !wanted->from_back && wanted->first <= run.min_key) {
      wanted_.block_count += std::min(kAheadBlocks, format::IndexBlocksOf(run.record_count));
    }
    return false;
  }
  uint32_t first = BlockOf(*first_keys, wanted->first);
  uint32_t last = BlockOf(*first_keys, wanted->last);
  // One more block, because the walk begins inside the first.
  const size_t most = std::min<size_t>(wanted->max_count, run.record_count) / kBlockRecords + 2;
  if (last - first >= most) {
    if (wanted->from_back) {
      first = last - static_cast<uint32_t>(most) + 1;
      wanted->first = (*first_keys)[first - 1];
    } else {
      last = first + static_cast<uint32_t>(most) - 1;
      wanted->last = (*first_keys)[last] - 1;
    }
  }
  const Wanted blocks = {
      run.id,     first,   last - first + 1, run.block_count + 1, {run.min_key, run.max_key},
      run.births, run.held};
  const Slice* slice = SliceOf(run, first, blocks.block_count);
  if (slice == nullptr && CopyFromFrames(run, frames, slots, blocks)) slice = &slices_.back();
  if (slice == nullptr) {
    wanted_ = blocks;
    if (permits_ != nullptr) {
      const auto end = static_cast<uint32_t>(first_keys->size()) + 1;
      const uint32_t ahead = std::max(kAheadBlocks, blocks.block_count);
      if (wanted->from_back) wanted_.first_block = last - std::min(last, ahead) + 1;
      wanted_.block_count =
          wanted->from_back ? last - wanted_.first_block + 1 : std::min(ahead, end - first);
    }
    return false;
  }
  *span = {slice->keys.data(), slice->refs.data(), slice->keys.size()};
  return true;
}

bool RunSlices::CopyFromFrames(const PagedRun& run, const BlockFrames& frames,
                               const FrameSlots& slots, const Wanted& wanted) {
  if (frames.FencesOf(run) == nullptr) return false;
  std::vector<const char*> blocks;
  for (uint32_t i = 0; i < wanted.block_count; ++i) {
    const char* const block = frames.BlockOf(run, wanted.first_block + i);
    if (block == nullptr) return false;
    blocks.push_back(block);
  }
  Slice slice{run.id, wanted.first_block, wanted.block_count, {}, {}};
  // With slots: a copy of a word that leads to a frame would not learn of the eviction.
  const auto slot_of = [&slots](const RefWord& word) { return slots.SlotOf(word); };
  for (const char* const block : blocks) {
    AddBlock(block, run.held.get(), run.births, slot_of, &slice);
  }
  slices_.push_back(std::move(slice));
  return true;
}

Status RunSlices::ReadWanted(const l1::ExtentStore& store, Wanted* wanted, Region* memory,
                             const char** blocks) const {
  // Fences that name more blocks than the root does are for the caller to refuse.
  const bool is_inside = wanted->first_block + wanted->block_count <= wanted->extent_blocks;
  const char* const ahead = runs_ahead_ == nullptr || !is_inside
                                ? nullptr
                                : runs_ahead_->Take(wanted->extent, wanted->extent_blocks);
  uint32_t whole_count = 0;
  while (ahead != nullptr && whole_count < wanted->extent_blocks &&
         store.IsWhole(wanted->extent, whole_count,
                       ahead + size_t{whole_count} * format::kIndexBlockBytes)) {
    ++whole_count;
  }
  if (ahead != nullptr && whole_count == wanted->extent_blocks) {
    wanted->first_block = 0;
    wanted->block_count = wanted->extent_blocks;
    *blocks = ahead;
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(
      size_t{wanted->block_count} * format::kIndexBlockBytes, /*huge_pages=*/false, memory));
  *blocks = memory->data();
  return store.ReadBlocks(wanted->extent, wanted->first_block, wanted->block_count, memory->data());
}

Status RunSlices::Load(const l1::ExtentStore& store, uint64_t slot_end) {
  ENGINE_RACE_ASSERT(is_wanting());
  Wanted wanted = std::exchange(wanted_, Wanted());
  Region memory;
  const char* blocks = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(ReadWanted(store, &wanted, &memory, &blocks));
  l1::KeyBounds keys = wanted.keys;
  for (uint32_t i = 0; i < wanted.block_count; ++i) {
    const char* const data = blocks + size_t{i} * format::kIndexBlockBytes;
    const uint32_t block = wanted.first_block + i;
    const bool follows = i == 0 || block == 1 || l1::RecordBlock(data).keys()[0] > keys.first;
    if (!IsSoundBlock(block, data, keys, slot_end) || !follows) {
      return Status::Corruption("key_index: block " + std::to_string(block) + " at place " +
                                std::to_string(wanted.extent.place) + " is no block of an index");
    }
    // The next block's keys come after these.
    if (block > 0) keys.first = l1::RecordBlock(data).bounds().last;
  }
  if (wanted.first_block == 0) {
    const l1::FenceBlock block(blocks);
    fences_.push_back(
        {wanted.extent, {block.first_keys(), block.first_keys() + block.block_count()}});
    if (wanted.block_count == 1) return Status::Ok();
  }
  // The block of fences has no records.
  const uint32_t skipped = wanted.first_block == 0 ? 1 : 0;
  Slice slice{wanted.extent, wanted.first_block + skipped, wanted.block_count - skipped, {}, {}};
  slice.keys.reserve(size_t{wanted.block_count} * kBlockRecords);
  slice.refs.reserve(slice.keys.capacity());
  for (uint32_t i = skipped; i < wanted.block_count; ++i) {
    const char* const data = blocks + size_t{i} * format::kIndexBlockBytes;
    AddBlock(
        data, wanted.held.get(), wanted.births, [](const RefWord& word) { return word.Load(); },
        &slice);
  }
  slices_.push_back(std::move(slice));
  return Status::Ok();
}

}  // namespace engine_race
