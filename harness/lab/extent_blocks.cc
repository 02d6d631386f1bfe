#include "harness/lab/extent_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/index/value_ref.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/key_block.h"
#include "harness/lab/block_shape.h"

namespace engine_race::lab {

using l1::ExtentStore;
using l1::FenceBlock;
using l1::IndexRoot;
using l1::KeyBounds;
using l1::RecordBlock;

namespace {

// The shards of the cache get unequal numbers of blocks.
constexpr uint64_t kCacheSlackBytes = uint64_t{64} << 20;

// A block's keys, whether they are fences or records.
std::span<const uint64_t> KeysOf(const char* block, bool is_fences) {
  if (is_fences) {
    const FenceBlock fences(block);
    return {fences.first_keys(), fences.block_count()};
  }
  const RecordBlock records(block);
  return {records.keys(), records.count()};
}

// How many neighbouring keys share a section of a block's tree.
uint32_t SectionKeys(size_t key_count) {
  return static_cast<uint32_t>((key_count + kMaxSections - 1) / kMaxSections);
}
uint32_t SectionCount(size_t key_count) {
  const uint32_t section_keys = SectionKeys(key_count);
  return static_cast<uint32_t>((key_count + section_keys - 1) / section_keys);
}

void FillNodes(std::span<const uint64_t> keys, NodeWords* nodes) {
  const uint32_t section_keys = SectionKeys(keys.size());
  const uint32_t last = SectionCount(keys.size()) - 1;
  for (uint32_t section = 0; section < kMaxSections; ++section) {
    nodes->leaves[section / kLeafFanout][section % kLeafFanout] =
        keys[size_t{std::min(section, last)} * section_keys];
  }
  for (uint32_t leaf = 0; leaf < kRootFanout; ++leaf) nodes->root[leaf] = nodes->leaves[leaf][0];
}

// Adds the slot of `key`. False if the block does not have the key.
bool AddSlotIn(const char* block, uint64_t key, const KeyBounds& bounds, uint64_t* sum) {
  const RecordBlock records(block);
  const uint32_t at = records.Find(key, bounds);
  if (at == records.count()) return false;
  *sum += ValueRef::FromWord(records.words()[at]).slot();
  return true;
}

}  // namespace

Status ExtentBlocks::Load(const BucketLog& log, std::unique_ptr<ExtentBlocks>* blocks) {
  return Guarded([&] {
    std::unique_ptr<ExtentBlocks> made(new ExtentBlocks);
    IndexRoot root;
    ENGINE_RACE_RETURN_IF_ERROR(
        l1::LoadIndexRoot(log.directory_fd(), log.ids(), log.geometry().bucket_count, &root));
    ENGINE_RACE_RETURN_IF_ERROR(made->Read(log, root));
    ENGINE_RACE_RETURN_IF_ERROR(made->FillCache());
    ENGINE_RACE_RETURN_IF_ERROR(made->MakeNodes());
    *blocks = std::move(made);
    return Status::Ok();
  });
}

Status ExtentBlocks::Read(const BucketLog& log, const IndexRoot& root) {
  geometry_ = log.geometry();
  bucket_begins_.assign(geometry_.bucket_count + 1, 0);
  uint64_t next_block = 0;
  for (const format::IndexExtent& extent : root.extents) {
    extents_.push_back({{extent.first_key, extent.last_key}, next_block});
    next_block += format::IndexBlocksOf(extent.record_count) + 1;
    bucket_begins_[extent.bucket + 1] = static_cast<uint32_t>(extents_.size());
  }
  // A bucket without extents begins where the one before it ends.
  for (uint32_t b = 0; b < geometry_.bucket_count; ++b) {
    bucket_begins_[b + 1] = std::max(bucket_begins_[b + 1], bucket_begins_[b]);
  }
  std::unique_ptr<ExtentStore> store;
  ENGINE_RACE_RETURN_IF_ERROR(ExtentStore::Open(log.directory_fd(), log.store_id(),
                                                /*file_mode=*/0, /*writable=*/false, &store));
  ENGINE_RACE_RETURN_IF_ERROR(store->Reserve(root.extents));
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(next_block * format::kIndexBlockBytes, /*huge_pages=*/true, &memory_));
  for (size_t i = 0; i < extents_.size(); ++i) {
    const format::IndexExtent& extent = root.extents[i];
    ENGINE_RACE_RETURN_IF_ERROR(store->ReadBlocks(
        {extent.generation, extent.place}, 0, format::IndexBlocksOf(extent.record_count) + 1,
        memory_.data() + extents_[i].first_block * format::kIndexBlockBytes));
  }
  return Status::Ok();
}

Status ExtentBlocks::FillCache() {
  cache_ = std::make_unique<BlockCache>(block_count() * format::kIndexBlockBytes * 3 / 2 +
                                        kCacheSlackBytes);
  for (uint64_t block = 0; block < block_count(); ++block) {
    BlockCache::OwnedEntry entry = BlockCache::Make(format::kIndexBlockBytes);
    if (entry == nullptr) return Status::OutOfMemory("no memory for a block of the cache");
    std::memcpy(entry->data, BlockAt(block), format::kIndexBlockBytes);
    cache_->Release(cache_->Insert(block, std::move(entry)));
  }
  return Status::Ok();
}

Status ExtentBlocks::MakeNodes() {
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(block_count() * sizeof(NodeWords), /*huge_pages=*/true, &node_memory_));
  auto* const nodes = reinterpret_cast<NodeWords*>(node_memory_.data());
  auto extent = extents_.begin();
  for (uint64_t block = 0; block < block_count(); ++block) {
    const bool is_fences = extent != extents_.end() && extent->first_block == block;
    if (is_fences) ++extent;
    FillNodes(KeysOf(BlockAt(block), is_fences), &nodes[block]);
  }
  return Status::Ok();
}

const ExtentBlocks::Extent* ExtentBlocks::ExtentOf(uint64_t key) const {
  const uint32_t bucket = geometry_.BucketOf(key);
  const Extent* const begin = extents_.data() + bucket_begins_[bucket];
  const Extent* end = extents_.data() + bucket_begins_[bucket + 1];
  if (begin == end) return nullptr;
  // Most buckets have one.
  while (end - begin > 1 && (end - 1)->keys.first > key) --end;
  return end - 1;
}

template <typename FindWord>
Status ExtentBlocks::FindAll(std::span<const uint64_t> keys, const FindWord& find_word,
                             uint64_t* slot_sum) const {
  for (const uint64_t key : keys) {
    const Extent* const extent = ExtentOf(key);
    if (extent == nullptr || !find_word(*extent, key, slot_sum)) {
      return Status(Code::kNotFound, "a key is in no block");
    }
  }
  return Status::Ok();
}

Status ExtentBlocks::FindByPointer(std::span<const uint64_t> keys, uint64_t* slot_sum) const {
  const auto find_word = [this](const Extent& extent, uint64_t key, uint64_t* sum) {
    const FenceBlock fences(BlockAt(extent.first_block));
    const uint32_t number = fences.BlockOf(key, extent.keys);
    return AddSlotIn(BlockAt(extent.first_block + number), key,
                     fences.BoundsOf(number, extent.keys.last), sum);
  };
  return FindAll(keys, find_word, slot_sum);
}

Status ExtentBlocks::FindInCache(std::span<const uint64_t> keys, uint64_t* slot_sum) const {
  const auto find_word = [this](const Extent& extent, uint64_t key, uint64_t* sum) {
    const BlockCache::Pin fences(cache_.get(), cache_->Lookup(extent.first_block));
    if (!fences.holds()) return false;
    const FenceBlock fence_block(fences.data());
    const uint32_t number = fence_block.BlockOf(key, extent.keys);
    const BlockCache::Pin records(cache_.get(), cache_->Lookup(extent.first_block + number));
    return records.holds() &&
           AddSlotIn(records.data(), key, fence_block.BoundsOf(number, extent.keys.last), sum);
  };
  return FindAll(keys, find_word, slot_sum);
}

// `last_not_above(block, keys, key)` gives the position of the last of the ascending keys that is
// not above `key`, and 0 if there is none.
template <typename LastNotAbove>
Status ExtentBlocks::FindBySearch(std::span<const uint64_t> keys,
                                  const LastNotAbove& last_not_above, uint64_t* slot_sum) const {
  const auto find_word = [&](const Extent& extent, uint64_t key, uint64_t* sum) {
    const FenceBlock fences(BlockAt(extent.first_block));
    const std::span<const uint64_t> first_keys(fences.first_keys(), fences.block_count());
    const uint64_t block =
        extent.first_block + 1 + last_not_above(extent.first_block, first_keys, key);
    const RecordBlock records(BlockAt(block));
    const std::span<const uint64_t> record_keys(records.keys(), records.count());
    const size_t at = last_not_above(block, record_keys, key);
    if (record_keys[at] != key) return false;
    *sum += ValueRef::FromWord(records.words()[at]).slot();
    return true;
  };
  return FindAll(keys, find_word, slot_sum);
}

Status ExtentBlocks::FindByHalving(std::span<const uint64_t> keys, uint64_t* slot_sum) const {
  const auto halve = [](uint64_t /*block*/, std::span<const uint64_t> in, uint64_t key) -> size_t {
    const auto above = std::upper_bound(in.begin(), in.end(), key);
    return above == in.begin() ? 0 : static_cast<size_t>(above - in.begin()) - 1;
  };
  return FindBySearch(keys, halve, slot_sum);
}

Status ExtentBlocks::FindByNodes(NodeSearchFn search, std::span<const uint64_t> keys,
                                 uint64_t* slot_sum) const {
  const auto* const nodes = reinterpret_cast<const NodeWords*>(node_memory_.data());
  const auto descend = [&](uint64_t block, std::span<const uint64_t> in, uint64_t key) -> size_t {
    const uint32_t section_keys = SectionKeys(in.size());
    const uint32_t section = search(nodes[block], SectionCount(in.size()), key);
    const size_t begin = size_t{section} * section_keys;
    const size_t end = std::min<size_t>(begin + section_keys, in.size());
    size_t at = begin;
    for (size_t next = begin + 1; next < end; ++next) at += in[next] <= key;
    return at;
  };
  return FindBySearch(keys, descend, slot_sum);
}

}  // namespace engine_race::lab
