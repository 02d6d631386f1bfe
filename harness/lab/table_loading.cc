// Loads blocks into frames and into the cache.

#include <cstring>
#include <new>

#include "harness/lab/block_cursor.h"
#include "harness/lab/table.h"

namespace lab {

namespace {

// The cache's number for an extent's description, behind those of the extent's blocks.
constexpr uint32_t kExtentObject = kBlocksPerExtent;
struct ExtentObject {
  uint32_t block_count;
};

// An index entry of a block has the same layout as the swip to it.
static_assert(BlockEntry::kCountShift == Swip::kNumberBits);
static_assert((((uint64_t{1} << (BlockEntry::kBytesShift + BlockEntry::kBytesBits)) - 1) &
               Swip::kTagMask) == 0);

// A cache key: the lowest bits number the object in its extent, the next ones the extent.
constexpr uint32_t kObjectBits = 8;
constexpr uint32_t kExtentBits = 24;
static_assert(kExtentObject < 1u << kObjectBits);

uint64_t CacheKey(uint64_t user, uint32_t extent, uint32_t object) {
  return user << (kExtentBits + kObjectBits) | uint64_t{extent} << kObjectBits | object;
}

}  // namespace

Status Table::Load(uint32_t extent, uint32_t block) const {
  const uint32_t frame = frames_->Take();
  if (frame == kNoFrame) return Status::Full("l1: no frame can be had");
  const Status filled = FillFrame(frame, extent, block);
  if (!filled.ok() || !InstallFrame(frame, extent, block)) frames_->pool()->GiveBack(frame);
  return filled;
}

Status Table::FillFrame(uint32_t frame, uint32_t extent, uint32_t block) const {
  ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, block, pool_->data(frame)));
  loaded_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  FrameInfo& info = pool_->info(frame);
  info.place = block;
  frames_->SearchFor(frame, options_.search_for_parents ? this : nullptr);
  if (block > 0) return Status::Ok();
  const uint32_t count = file_->block_count(extent);
  info.children.reset(new (std::nothrow) std::atomic<uint64_t>[count]);
  if (info.children == nullptr) return Status::OutOfMemory("l1: swips of an index block");
  BlockCursor entry(encoding_, pool_->data(frame));
  entry.SeekRank(0);
  for (uint32_t rank = 0; rank < count && entry.valid(); ++rank, entry.Next()) {
    uint64_t word;
    std::memcpy(&word, entry.payload(), sizeof(word));
    // Relaxed: no other thread knows the frame.
    info.children[rank].store(word, std::memory_order_relaxed);
  }
  return Status::Ok();
}

bool Table::InstallFrame(uint32_t frame, uint32_t extent, uint32_t block) const {
  FrameInfo& info = pool_->info(frame);
  const EpochManager::Guard guard(*epochs_);
  // Sequentially consistent: must not move ahead of the entry into the epoch.
  const Swip root(roots_[extent].load(std::memory_order_seq_cst));
  if (block == 0) {
    info.parent_frame = kNoFrame;
    info.parent = &roots_[extent];
    return !root.hot() && BlockOwner::Install(frames_->pool(), frame, root);
  }
  if (!root.hot()) return false;
  info.parent_frame = root.number();
  info.parent = &pool_->info(root.number()).children[block - 1];
  const Swip swip(info.parent->load(std::memory_order_seq_cst));
  return !swip.hot() && BlockOwner::Install(frames_->pool(), frame, swip);
}

std::atomic<uint64_t>* Table::FindParent(uint32_t frame, uint32_t* parent_frame) const {
  // Without parent pointers only the block's keys and its table are known.
  BlockCursor first(encoding_, pool_->data(frame));
  first.SeekRank(0);
  const uint32_t extent = file_->root().Find(first.key());
  *parent_frame = kNoFrame;
  if (pool_->info(frame).place == 0) return &roots_[extent];
  // Relaxed: nothing that leads to a frame with a child changes while the pool's mutex is held.
  *parent_frame = Swip(roots_[extent].load(std::memory_order_relaxed)).number();
  const uint32_t rank = RankIn(pool_->data(*parent_frame), first.key());
  return &pool_->info(*parent_frame).children[rank];
}

Status Table::ReadAside(uint32_t extent, uint32_t block, Region* buffer) const {
  if (buffer->data() == nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kBlockBytes, /*huge_pages=*/false, buffer));
  }
  past_frames_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  return file_->ReadBlock(extent, block, buffer->data());
}

Status Table::PinBlock(uint32_t extent, uint32_t block, BlockCache::Pin* pin) const {
  const uint64_t cache_key = CacheKey(cache_user_, extent, block);
  BlockCache::Entry* entry = cache_->Lookup(cache_key);
  if (entry == nullptr) [[unlikely]] {
    BlockCache::OwnedEntry made = BlockCache::Make(kBlockBytes);
    if (made == nullptr) return Status::OutOfMemory("l1: a cached block");
    ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, block, made->data));
    loaded_.fetch_add(1, std::memory_order_relaxed);  // a statistic
    entry = cache_->Insert(cache_key, std::move(made));
  }
  *pin = BlockCache::Pin(cache_, entry);
  return Status::Ok();
}

Status Table::PinExtent(uint32_t extent, BlockCache::Pin* pin) const {
  const uint64_t cache_key = CacheKey(cache_user_, extent, kExtentObject);
  BlockCache::Entry* entry = cache_->Lookup(cache_key);
  if (entry == nullptr) [[unlikely]] {
    BlockCache::OwnedEntry made = BlockCache::Make(sizeof(ExtentObject));
    if (made == nullptr) return Status::OutOfMemory("l1: a cached extent");
    const ExtentObject object = {file_->block_count(extent)};
    std::memcpy(made->data, &object, sizeof(object));
    entry = cache_->Insert(cache_key, std::move(made));
  }
  *pin = BlockCache::Pin(cache_, entry);
  return Status::Ok();
}

}  // namespace lab
