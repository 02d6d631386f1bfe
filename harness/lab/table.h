// A table, as far as there are frames for it in memory. Start reading about the lab here.
//
// A lookup goes from the array of extents to an index block, and from there to a block of records.
// Options choose for each step how it finds the next block. The baseline asks a cache by the
// block's number. With swips, the word that leads to a block in memory is the number of its frame.
// Blocks are loaded and verified at their first use.
//
// With swips, a lookup that finds all its blocks in memory takes no lock and writes to no shared
// cache line. It is inside the epoch while it reads blocks, and outside while it waits for the
// disk.
//
// Thread-safe. The frames, the epochs and the cache outlive the table.
#ifndef HARNESS_LAB_TABLE_H_
#define HARNESS_LAB_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "harness/lab/block_cache.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/block_view.h"
#include "harness/lab/engine_names.h"
#include "harness/lab/extent_file.h"
#include "harness/lab/node_search.h"
#include "harness/lab/table_frames.h"

namespace lab {

// How a lookup finds the next block.
enum class Reach : uint8_t { kCache, kPointer };
// How readers protect the frames that they read from being used again.
enum class Protection : uint8_t { kEpoch, kCount };

struct TableOptions {
  NodeSearchFn search = nullptr;  // null: the best on this CPU
  // Index blocks can be reached by pointer only when extents are, and blocks of records only when
  // index blocks are.
  Reach extents = Reach::kPointer;
  Reach indexes = Reach::kPointer;
  Reach records = Reach::kPointer;
  Protection protection = Protection::kEpoch;
  // The eviction of a frame searches for its parent from the root, instead of using the frame's
  // pointer to it. For comparison.
  bool search_for_parents = false;
};

struct TableStats {
  uint64_t loaded_count = 0;       // blocks that were loaded into frames or the cache
  uint64_t past_frames_count = 0;  // blocks that were read for one lookup only
  uint32_t hot_count = 0;          // blocks in frames
};

class Table final : private ParentFinder {
 public:
  // `frames` and `epochs` may be null when only extents are reached by pointer, `cache` when
  // nothing is reached through it. kInvalidArgument for options that contradict each other or lack
  // one of these; kNotSupported for blocks of an unknown encoding.
  static Status Open(int dir_fd, const std::string& name, const TableOptions& options,
                     TableFrames* frames, EpochManager* epochs, BlockCache* cache,
                     std::unique_ptr<Table>* table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  // No lookup may be running. Returns the table's frames to the pool.
  ~Table();

  // Copies the payload of `key`: kNotFound, kCorruption, kIOError, kOutOfMemory.
  Status Get(const char* key, char* payload) const;

  // Looks up an array of statuses.size() keys; the payloads become an array too. When everything is
  // reached by pointer and protected by the epoch, lookups go level by level. Each prefetches for
  // its next level while the others continue. Otherwise it makes as many calls of Get.
  void MultiGet(const char* keys, char* payloads, std::span<Status> statuses) const;

  // Stands at a record of the table, which outlives it. Belongs to one thread.
  class Cursor {
   public:
    explicit Cursor(const Table* table);
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;
    ~Cursor();

    // Moves to the first record at or above `key`.
    void Seek(const char* key);
    // Moves to the next record, from a valid one.
    void Next();
    bool valid() const { return key_ != nullptr; }
    // These are valid until the cursor moves.
    const char* key() const { return key_; }
    const char* payload() const { return payload_; }
    // Ok at the table's end; otherwise why the cursor is not valid: kCorruption, kIOError,
    // kOutOfMemory.
    const Status& status() const { return status_; }

   private:
    struct Impl;
    void Show(bool there);

    std::unique_ptr<Impl> impl_;
    // Null when it is not valid.
    const char* key_ = nullptr;
    const char* payload_ = nullptr;
    Status status_;
  };

  const ExtentFile& file() const { return *file_; }
  TableStats Stats() const;

 private:
  // A lookup may load a block only to find that another one was evicted meanwhile. After this many
  // loads it reads the rest past the frames.
  static constexpr uint32_t kMaxLoads = 4;
  // Keys of a MultiGet that are looked up side by side: their cache lines fit the nearest cache.
  static constexpr uint32_t kBatch = 64;
  // The state of one key of a MultiGet.
  struct Pending;

  Table() = default;
  Status CheckOptions() const;
  // False when there was nothing to remove.
  bool RemoveFrames(uint32_t extent);
  std::atomic<uint64_t>* FindParent(uint32_t frame, uint32_t* parent_frame) const override;

  template <typename Readers>
  Status GetByPointer(uint32_t extent, const char* key, char* payload) const;
  void TouchIndex(uint32_t extent, const char* key, const char* index,
                  const std::atomic<uint64_t>* children) const;
  void TouchRecords(const char* index, uint32_t rank, const char* key, BlockEntry entry,
                    const char* block) const;
  Status GetThroughCache(uint32_t extent, const char* key, char* payload) const;
  // Reads past the frames, for a lookup that finds none free.
  Status GetFromDisk(uint32_t extent, const char* key, char* payload) const;
  // Answers up to kBatch keys from memory; keys of blocks that are not in memory get kIncomplete.
  void GetBatch(const char* keys, char* payloads, std::span<Status> statuses) const;
  Status CopyPayload(const char* block, const char* key, char* payload) const;
  // The number of the extent's blocks whose keys are all below `key`, which the extent can hold.
  uint32_t RankIn(const char* index, const char* key) const {
    return LowerBoundInBlock(encoding_, index, key, options_.search);
  }

  // Finds the block of the extent that can hold `key`; reaches the index as the options say.
  Status FindBlock(uint32_t extent, const char* key, uint32_t* block) const;
  // Calls use(const char* block) with the block in a frame, or in `buffer` when it is read past the
  // frames.
  template <typename UseFn>
  Status UseBlock(uint32_t extent, uint32_t block, Region* buffer, const UseFn& use) const;
  // Calls use if the block is in a frame; otherwise *missing is the block to load first.
  template <typename Readers, typename UseFn>
  bool UseFrame(uint32_t extent, uint32_t block, const UseFn& use, uint32_t* missing) const;

  // Loads a block into a frame and makes it reachable. Changes nothing when another thread has
  // loaded it meanwhile, or when its parent was evicted. Called outside the epoch. kFull when no
  // frame is free.
  Status Load(uint32_t extent, uint32_t block) const;
  Status FillFrame(uint32_t frame, uint32_t extent, uint32_t block) const;
  bool InstallFrame(uint32_t frame, uint32_t extent, uint32_t block) const;
  Status ReadAside(uint32_t extent, uint32_t block, Region* buffer) const;
  // Pins a block, or an extent's description, in the cache.
  Status PinBlock(uint32_t extent, uint32_t block, BlockCache::Pin* pin) const;
  Status PinExtent(uint32_t extent, BlockCache::Pin* pin) const;

  std::unique_ptr<ExtentFile> file_;
  TableOptions options_;
  Encoding encoding_ = Encoding::kTree;
  uint32_t key_bytes_ = 0;
  uint32_t payload_bytes_ = 0;
  TableFrames* frames_ = nullptr;
  const FramePool* pool_ = nullptr;  // of frames_
  EpochManager* epochs_ = nullptr;
  BlockCache* cache_ = nullptr;
  uint64_t cache_user_ = 0;
  // The swips of the index blocks, by extent; null when these are reached through the cache, and
  // then the table has no frames.
  std::unique_ptr<std::atomic<uint64_t>[]> roots_;
  mutable std::atomic<uint64_t> loaded_{0};
  mutable std::atomic<uint64_t> past_frames_{0};
};

}  // namespace lab

#endif  // HARNESS_LAB_TABLE_H_
