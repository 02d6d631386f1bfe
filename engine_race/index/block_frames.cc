#include "engine_race/index/block_frames.h"

#include <cstring>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/swip.h"
#include "engine_race/l1/key_block.h"

namespace engine_race {

namespace {

// The number under which the sketch counts the uses of a block.
uint64_t IdOf(const l1::ExtentId& extent, uint32_t block) {
  return MixWords(extent.generation, uint64_t{block} + 1);
}

// Whether sound fences fit what the root says of the run. With more blocks searches would find some
// that the run does not have.
bool AreFencesOf(const PagedRun& run, const l1::FenceBlock& fences) {
  const uint64_t* const first_keys = fences.first_keys();
  return fences.block_count() == run.block_count && first_keys[0] >= run.min_key &&
         first_keys[run.block_count - 1] <= run.max_key;
}

// Whether the sound block with that number has as many keys as the root says, and where the fences
// say. Searches take the count from the run. Walks take the order of blocks for that of their keys.
bool IsBlockOf(const PagedRun& run, uint32_t number, const l1::KeyBounds& bounds,
               const l1::RecordBlock& block) {
  return block.count() == run.CountIn(number) && block.bounds().first == bounds.first &&
         block.bounds().last <= bounds.last;
}

}  // namespace

BlockFrames::BlockFrames(l1::FrameCache* cache)
    : cache_(cache), frames_(cache == nullptr ? nullptr : cache->data(0)) {
  if (cache_ != nullptr) cache_->SetOwner(l1::FrameKind::kBlock, this);
}

BlockFrames::~BlockFrames() {
  if (cache_ != nullptr) cache_->RemoveOwner(l1::FrameKind::kBlock);
}

void BlockFrames::Offer(const l1::ExtentId& extent, uint32_t block, const char* data,
                        FunctionRef<bool(uint32_t frame)> swizzle) noexcept {
  if (cache_ == nullptr) return;
  const uint64_t id = IdOf(extent, block);
  const uint32_t frame = cache_->TakeFor(l1::FrameKind::kBlock, id, cache_->Note(id));
  if (frame == l1::kNoFrame) return;
  std::memcpy(cache_->data(frame), data, format::kIndexBlockBytes);
  l1::FrameInfo& info = cache_->info(frame);
  if (block == 0) {
    const uint32_t count = l1::FenceBlock(data).block_count();
    info.children.reset(new (std::nothrow) std::atomic<uint64_t>[count]());
  }
  const bool can_install = block > 0 || info.children != nullptr;
  if (!can_install || !cache_->Install(frame, [&] { return swizzle(frame); })) {
    cache_->GiveBack(frame);
  }
}

bool BlockFrames::Swizzle(const PagedRun& run, uint32_t block, uint32_t frame) noexcept {
  l1::FrameInfo& info = cache_->info(frame);
  info.parent = &run.fences;
  info.parent_frame = l1::kNoFrame;
  if (block == 0) {
    if (!AreFencesOf(run, l1::FenceBlock(cache_->data(frame)))) return false;
  } else {
    // Relaxed: swips become hot and cold under the pool's mutex only.
    const Swip fences(run.fences.load(std::memory_order_relaxed));
    if (!fences.hot()) return false;
    const l1::KeyBounds bounds =
        l1::FenceBlock(cache_->data(fences.number())).BoundsOf(block, run.max_key);
    if (!IsBlockOf(run, block, bounds, l1::RecordBlock(cache_->data(frame)))) return false;
    l1::FrameInfo& parent = cache_->info(fences.number());
    info.parent = &parent.children[block - 1];
    if (Swip(info.parent->load(std::memory_order_relaxed)).hot() || !parent.AddChild()) {
      return false;
    }
    info.parent_frame = fences.number();
  }
  uint64_t word = info.parent->load(std::memory_order_relaxed);
  if (Swip(word).hot()) return false;
  // Release: pairs with the load in SwipsOf.
  if (block == 0) run.swips.store(info.children.get(), std::memory_order_release);
  // Release: the frame was filled before its number is stored. Pairs with the load in FrameOf. No
  // other thread stores here: all hold the pool's mutex.
  const bool stored = info.parent->compare_exchange_strong(
      word, Swip(word).In(frame).word(), std::memory_order_release, std::memory_order_relaxed);
  ENGINE_RACE_ASSERT(stored);
  return stored;
}

void BlockFrames::Evict(const PagedRun& run) noexcept {
  if (cache_ != nullptr) cache_->pool().RemoveTree(run.fences, run.block_count);
}

void BlockFrames::FitLimit() noexcept {
  if (cache_ != nullptr) cache_->ShrinkTo(cache_->limit_bytes());
}

bool BlockFrames::HasHotWords(uint32_t frame, const l1::FrameInfo& info) const noexcept {
  // Values in a cache of their own keep no block in this one.
  if (info.children != nullptr || !cache_->pool().HasOwner(l1::FrameKind::kValue)) return false;
  const l1::RecordBlock block(cache_->data(frame));
  const auto* const words = reinterpret_cast<const RefWord*>(block.words());
  for (uint32_t i = 0; i < block.count(); ++i) {
    if (words[i].Load().hot()) return true;
  }
  return false;
}

l1::FrameOwner::Cooled BlockFrames::Cool(uint32_t frame, l1::FrameInfo* info) noexcept {
  return HasHotWords(frame, *info) ? Cooled::kInUse : blocks_.Cool(frame, info);
}

bool BlockFrames::WasHeated(uint32_t frame, l1::FrameInfo* info) noexcept {
  return HasHotWords(frame, *info) || blocks_.WasHeated(frame, info);
}

bool BlockFrames::Unswizzle(uint32_t frame, l1::FrameInfo* info, bool only_cooling) noexcept {
  if (only_cooling && HasHotWords(frame, *info)) return false;
  return blocks_.Unswizzle(frame, info, only_cooling);
}

void BlockFrames::Release(uint32_t frame, l1::FrameInfo* info) noexcept {
  blocks_.Release(frame, info);
}

}  // namespace engine_race
