#include "harness/lab/table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "harness/lab/frame_readers.h"
#include "harness/lab/table_use.h"

namespace lab {

Status Table::Open(int dir_fd, const std::string& name, const TableOptions& options,
                   TableFrames* frames, EpochManager* epochs, BlockCache* cache,
                   std::unique_ptr<Table>* table) {
  try {
    std::unique_ptr<Table> opened(new Table);
    opened->options_ = options;
    opened->frames_ = frames;
    if (frames != nullptr) opened->pool_ = frames->pool();
    opened->epochs_ = epochs;
    opened->cache_ = cache;
    ENGINE_RACE_RETURN_IF_ERROR(opened->CheckOptions());
    if (options.search == nullptr) opened->options_.search = NodeSearchKernel(BestNodeSearch());
    if (cache != nullptr) opened->cache_user_ = cache->NewUser();
    ENGINE_RACE_RETURN_IF_ERROR(ExtentFile::Open(dir_fd, name, &opened->file_));
    ENGINE_RACE_RETURN_IF_ERROR(EncodingOf(*opened->file_, &opened->encoding_));
    opened->key_bytes_ = opened->file_->shape().key_bytes;
    opened->payload_bytes_ = opened->file_->shape().payload_bytes;
    if (options.indexes == Reach::kPointer) {
      opened->roots_ = std::make_unique<std::atomic<uint64_t>[]>(opened->file_->extent_count());
    }
    *table = std::move(opened);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for a table");
  }
}

Status Table::CheckOptions() const {
  const bool indexes_by_pointer = options_.indexes == Reach::kPointer;
  const bool records_by_pointer = options_.records == Reach::kPointer;
  if (indexes_by_pointer && options_.extents != Reach::kPointer) {
    return Status::InvalidArgument("l1: index blocks by pointer, but not extents");
  }
  if (records_by_pointer && !indexes_by_pointer) {
    return Status::InvalidArgument("l1: blocks of records by pointer, but not index blocks");
  }
  if (indexes_by_pointer && (frames_ == nullptr || epochs_ == nullptr)) {
    return Status::InvalidArgument("l1: blocks by pointer need frames and epochs");
  }
  if (!records_by_pointer && cache_ == nullptr) {
    return Status::InvalidArgument("l1: no cache to find blocks in");
  }
  return Status::Ok();
}

Table::~Table() {
  if (roots_ == nullptr) return;
  for (uint32_t extent = 0; extent < file_->extent_count(); ++extent) {
    // More than once only if blocks are evicted meanwhile.
    while (RemoveFrames(extent)) {
    }
  }
}

bool Table::RemoveFrames(uint32_t extent) {
  uint32_t frames[kBlocksPerExtent];
  uint32_t count = 0;
  {
    const EpochManager::Guard guard(*epochs_);
    // Both sequentially consistent: must not move ahead of the entry into the epoch.
    const Swip root(roots_[extent].load(std::memory_order_seq_cst));
    if (!root.hot()) return false;
    const FrameInfo& info = pool_->info(root.number());
    for (uint32_t rank = 0; rank < file_->block_count(extent); ++rank) {
      const Swip child(info.children[rank].load(std::memory_order_seq_cst));
      if (child.hot()) frames[count++] = child.number();
    }
    frames[count++] = root.number();
  }
  // A frame that was evicted meanwhile may have another block now, whose owner will load it again.
  for (uint32_t i = 0; i < count; ++i) frames_->pool()->Remove(frames[i]);
  return true;
}

Status Table::Get(const char* key, char* payload) const {
  const uint32_t extent = file_->root().Find(key);
  if (extent == file_->extent_count()) [[unlikely]] {
    return Status::NotFound();
  }
  if (options_.records == Reach::kCache) return GetThroughCache(extent, key, payload);
  return options_.protection == Protection::kEpoch
             ? GetByPointer<EpochReader>(extent, key, payload)
             : GetByPointer<CountReader>(extent, key, payload);
}

template <typename Readers>
Status Table::GetByPointer(uint32_t extent, const char* key, char* payload) const {
  for (uint32_t loads = 0; loads < kMaxLoads; ++loads) {
    uint32_t missing = 0;
    {
      Readers readers(frames_, epochs_);
      uint32_t frame;
      if (readers.Follow(&roots_[extent], &frame)) [[likely]] {
        const char* const index = pool_->data(frame);
        std::atomic<uint64_t>* const children = pool_->info(frame).children.get();
        const bool guesses = encoding_ == Encoding::kTree;
        if (guesses) TouchIndex(extent, key, index, children);
        const uint32_t rank = RankIn(index, key);
        if (readers.Follow(&children[rank], &frame)) [[likely]] {
          const char* const block = pool_->data(frame);
          if (guesses)
            TouchRecords(index, rank, key,
                         BlockEntry(children[rank].load(std::memory_order_relaxed)), block);
          return CopyPayload(block, key, payload);
        }
        missing = rank + 1;
      }
    }
    const Status loaded = Load(extent, missing);
    if (loaded.code() == Code::kFull) break;
    ENGINE_RACE_RETURN_IF_ERROR(loaded);
  }
  return GetFromDisk(extent, key, payload);
}

// Each step of a search waits for a cache line whose address comes from the step before. Guessing
// the addresses, from the key's position between the keys of the level above, lets the waits
// overlap.
inline void Table::TouchIndex(uint32_t extent, const char* key, const char* index,
                              const std::atomic<uint64_t>* children) const {
  const uint32_t rank = file_->root().GuessBlock(extent, key, file_->block_count(extent));
  TreeBlock::TouchIndex(index, rank);
  // Relaxed: the value is not used, only its line is fetched.
  Touch(children[rank].load(std::memory_order_relaxed));
}

inline void Table::TouchRecords(const char* index, uint32_t rank, const char* key, BlockEntry entry,
                                const char* block) const {
  const uint32_t count = entry.record_count();
  TreeBlock::TouchRecords(block, TreeBlock(index).GuessBetween(rank, key, count), count,
                          entry.record_bytes());
}

Status Table::CopyPayload(const char* block, const char* key, char* payload) const {
  const char* const found = FindInBlock(encoding_, block, key, options_.search);
  if (found == nullptr) return Status::NotFound();
  std::memcpy(payload, found, payload_bytes_);
  return Status::Ok();
}

Status Table::GetThroughCache(uint32_t extent, const char* key, char* payload) const {
  uint32_t block = 0;
  ENGINE_RACE_RETURN_IF_ERROR(FindBlock(extent, key, &block));
  BlockCache::Pin records;
  ENGINE_RACE_RETURN_IF_ERROR(PinBlock(extent, block, &records));
  return CopyPayload(records.data(), key, payload);
}

Status Table::GetFromDisk(uint32_t extent, const char* key, char* payload) const {
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(ReadAside(extent, 0, &buffer));
  const uint32_t rank = RankIn(buffer.data(), key);
  ENGINE_RACE_RETURN_IF_ERROR(ReadAside(extent, rank + 1, &buffer));
  return CopyPayload(buffer.data(), key, payload);
}

Status Table::FindBlock(uint32_t extent, const char* key, uint32_t* block) const {
  if (options_.indexes == Reach::kPointer) {
    Region buffer;
    return UseBlock(extent, 0, &buffer,
                    [&](const char* index) { *block = RankIn(index, key) + 1; });
  }
  if (options_.extents == Reach::kCache) {
    BlockCache::Pin what_it_is;
    ENGINE_RACE_RETURN_IF_ERROR(PinExtent(extent, &what_it_is));
  }
  BlockCache::Pin index;
  ENGINE_RACE_RETURN_IF_ERROR(PinBlock(extent, 0, &index));
  *block = RankIn(index.data(), key) + 1;
  return Status::Ok();
}

TableStats Table::Stats() const {
  TableStats stats;
  // Both relaxed: statistics.
  stats.loaded_count = loaded_.load(std::memory_order_relaxed);
  stats.past_frames_count = past_frames_.load(std::memory_order_relaxed);
  if (roots_ == nullptr) return stats;
  for (uint32_t extent = 0; extent < file_->extent_count(); ++extent) {
    const EpochManager::Guard guard(*epochs_);
    // Sequentially consistent: behind the entry into the epoch.
    const Swip root(roots_[extent].load(std::memory_order_seq_cst));
    if (!root.hot()) continue;
    ++stats.hot_count;
    // Relaxed: a statistic.
    const uint32_t children =
        pool_->info(root.number()).child_count.load(std::memory_order_relaxed);
    if (children != FrameInfo::kClosed) stats.hot_count += children;
  }
  return stats;
}

}  // namespace lab
