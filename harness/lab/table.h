// A table in memory. Start reading about the lab here.
//
// A lookup goes from the array of extents to an index block, and from there to a block of records.
// Options choose for each step how it finds the next block. The baseline asks a cache by the
// block's number. With swips, the word that leads to a block in memory is the number of its frame.
//
// With swips, a lookup takes no lock and writes to no shared cache line. It is inside the epoch
// while it reads blocks.
//
// Every block is in a frame or in the cache from Open on. Thread-safe. The frames and the cache
// outlive the table.
#ifndef HARNESS_LAB_TABLE_H_
#define HARNESS_LAB_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/lab/block_cache.h"
#include "harness/lab/block_cursor.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/node_search.h"
#include "harness/lab/table_file.h"
#include "harness/lab/table_frames.h"

namespace engine_race::lab {

// How a lookup finds the next block.
enum class Reach : uint8_t { kCache, kPointer };
// How readers protect the frames that they read from being used again.
enum class Protection : uint8_t { kEpoch, kCount };

struct TableOptions {
  Encoding encoding = Encoding::kTree;
  NodeSearchFn search = nullptr;  // null: the best on this CPU
  // Index blocks can be reached by pointer only when extents are, and blocks of records only when
  // index blocks are.
  Reach extents = Reach::kPointer;
  Reach indexes = Reach::kPointer;
  Reach records = Reach::kPointer;
  Protection protection = Protection::kEpoch;
};

class Table {
 public:
  // Loads a file of this shape. `frames` may be null when only extents are reached by pointer,
  // `cache` when nothing is reached through it. kFull when there are too few frames, kIOError,
  // kOutOfMemory.
  static Status Open(int dir_fd, const std::string& name, const TableShape& shape,
                     const TableOptions& options, TableFrames* frames, BlockCache* cache,
                     std::unique_ptr<Table>* table);
  // No lookup may be running. Returns the table's frames to the pool.
  ~Table();

  // Copies the payload of `key`. kNotFound, and kIncomplete when a block is not in memory.
  Status Get(const char* key, char* payload) const;

  // Looks up an array of statuses.size() keys; the payloads become an array too. When everything is
  // reached by pointer and protected by the epoch, lookups go level by level. Each prefetches for
  // its next level while the others continue. Otherwise it makes as many calls of Get.
  void MultiGet(const char* keys, char* payloads, std::span<Status> statuses) const;

 private:
  friend class TableCursor;
  // Keys of a MultiGet that are looked up side by side: their cache lines fit the nearest cache.
  static constexpr uint32_t kBatch = 64;
  // The state of one key of a MultiGet.
  struct Pending;

  Table(const TableShape& shape, const TableOptions& options, TableFrames* frames,
        BlockCache* cache);
  Status Load(int dir_fd, const std::string& name);
  Status LoadExtent(uint32_t extent, const char* data, std::vector<char>* last_keys);
  // Puts a block into a frame and makes it reachable. `words` are the payloads of an index.
  Status Install(uint32_t extent, uint32_t block, const char* data,
                 const std::vector<uint64_t>& words);
  // Puts a block, or an extent's description, into the cache.
  Status Insert(uint32_t extent, uint32_t object, const void* data, size_t bytes);

  template <typename Readers>
  Status GetByPointer(uint32_t extent, const char* key, char* payload) const;
  void TouchIndex(uint32_t extent, const char* key, const char* index,
                  const std::atomic<uint64_t>* children) const;
  void TouchRecords(const char* index, uint32_t rank, const char* key, BlockEntry entry,
                    const char* block) const;
  Status GetThroughCache(uint32_t extent, const char* key, char* payload) const;
  // Answers up to kBatch keys.
  void GetBatch(const char* keys, char* payloads, std::span<Status> statuses) const;
  // The payload of `key` in the block; null when there is none.
  const char* FindIn(const char* block, const char* key) const {
    return FindInBlock(options_.encoding, block, key, options_.search);
  }
  // kNotFound for null.
  Status CopyPayload(const char* found, char* payload) const;
  // The number of the extent's blocks whose keys are all below `key`, which the extent can hold.
  uint32_t RankIn(const char* index, const char* key) const {
    return LowerBoundInBlock(options_.encoding, index, key, options_.search);
  }

  // Finds the block of the extent that can hold `key`; reaches the index as the options say.
  Status FindBlock(uint32_t extent, const char* key, uint32_t* block) const;
  // Calls use(const char* block) with the block in a frame.
  template <typename UseFn>
  Status UseBlock(uint32_t extent, uint32_t block, const UseFn& use) const;
  template <typename Readers, typename UseFn>
  Status UseFrame(uint32_t extent, uint32_t block, const UseFn& use) const;
  Status Pin(uint32_t extent, uint32_t object, BlockCache::Pin* pin) const;

  uint32_t extent_count() const { return static_cast<uint32_t>(block_counts_.size()); }
  static Status NotInMemory() { return Status(Code::kIncomplete, "l1: a block is not in memory"); }

  const TableShape shape_;
  TableOptions options_;
  TableFrames* const frames_;
  const FramePool* const pool_;  // of frames_
  BlockCache* const cache_;
  const uint64_t cache_user_;
  ExtentRoot root_;
  std::vector<uint32_t> block_counts_;  // of records, by extent
  // The swips of the index blocks, by extent; null when these are reached through the cache, and
  // then the table has no frames.
  std::unique_ptr<std::atomic<uint64_t>[]> roots_;
};

template <typename Readers, typename UseFn>
Status Table::UseFrame(uint32_t extent, uint32_t block, const UseFn& use) const {
  Readers readers(frames_);
  uint32_t frame;
  if (!readers.Follow(&roots_[extent], &frame)) return NotInMemory();
  if (block > 0 && !readers.Follow(&pool_->info(frame).children[block - 1], &frame)) {
    return NotInMemory();
  }
  use(pool_->data(frame));
  return Status::Ok();
}

template <typename UseFn>
Status Table::UseBlock(uint32_t extent, uint32_t block, const UseFn& use) const {
  return options_.protection == Protection::kEpoch ? UseFrame<EpochReader>(extent, block, use)
                                                   : UseFrame<CountReader>(extent, block, use);
}

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TABLE_H_
