// A table in memory, as much of it as there are frames for: the room's front page.
//
// A lookup goes from the array of extents to an index block to a block of records. How it comes
// from one to the next is what L1 is about, and each step can be chosen by itself: through a cache
// that is asked by number (the baseline), or through swips, which are the frames' own numbers once
// the blocks are in memory. Blocks are loaded when they are first asked for and verified then.
//
// With swips a lookup that finds everything in memory takes no lock, writes to no shared line, and
// is inside the epoch while it looks; it never is while it waits for the disk.
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
#include "harness/lab/block_view.h"
#include "harness/lab/engine_names.h"
#include "harness/lab/table_frames.h"

namespace lab {

// How the next thing is reached.
enum class Reach : uint8_t { kCache, kPointer };
// How readers keep what they look at from being used again.
enum class Protection : uint8_t { kEpoch, kCount };

struct TableOptions {
  NodeSearchFn search = nullptr;  // null: what is best here
  // Index blocks can be reached by pointer only when extents are, and blocks of records only when
  // index blocks are.
  Reach extents = Reach::kPointer;
  Reach indexes = Reach::kPointer;
  Reach records = Reach::kPointer;
  Protection protection = Protection::kEpoch;
  // Frames that go do not know what leads to them: it is searched for from the root. To be compared
  // with.
  bool search_for_parents = false;
};

struct TableStats {
  uint64_t loaded_count = 0;       // blocks that were brought into frames or the cache
  uint64_t past_frames_count = 0;  // blocks that were read for one lookup alone
  uint32_t hot_count = 0;          // blocks in frames
};

class Table final : private ParentFinder {
 public:
  // `frames` and `epochs` may be null where nothing is reached by pointer but extents, `cache`
  // where nothing is reached through it. kInvalidArgument for options that contradict each other or
  // lack one of these; kNotSupported for blocks of an unknown encoding.
  static Status Open(int dir_fd, const std::string& name, const TableOptions& options,
                     TableFrames* frames, EpochManager* epochs, BlockCache* cache,
                     std::unique_ptr<Table>* table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  // No lookup is under way. Its frames go back to the pool.
  ~Table();

  // Copies the payload of `key`: kNotFound, kCorruption, kIOError, kOutOfMemory.
  Status Get(const char* key, char* payload) const;

  // The same of statuses.size() keys, which lie one behind the other as their payloads will. What
  // many lookups wait for is fetched while others go on, a level at a time, where everything is
  // reached by pointer and under the epoch; else it is as many Gets.
  void MultiGet(const char* keys, char* payloads, std::span<Status> statuses) const;

  // Stands at a record of the table, which outlives it. One thread.
  class Cursor {
   public:
    explicit Cursor(const Table* table);
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;
    ~Cursor();

    // To the first record at or above `key`.
    void Seek(const char* key);
    // From a valid record.
    void Next();
    bool valid() const { return key_ != nullptr; }
    // Until it moves.
    const char* key() const { return key_; }
    const char* payload() const { return payload_; }
    // Why it is not valid, beside the table's end: kCorruption, kIOError, kOutOfMemory.
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
  // So often a lookup brings a block into memory and then finds another one gone, before it reads
  // what it needs past the frames.
  static constexpr uint32_t kMaxLoads = 4;
  // So many keys of a MultiGet are looked up side by side: what they fetch fits the nearest cache.
  static constexpr uint32_t kBatch = 64;
  // What MultiGet knows of one key.
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
  // Past the frames, for who finds none free.
  Status GetFromDisk(uint32_t extent, const char* key, char* payload) const;
  // Of up to kBatch keys, those that are in memory; the others get kIncomplete.
  void GetBatch(const char* keys, char* payloads, std::span<Status> statuses) const;
  Status CopyPayload(const char* block, const char* key, char* payload) const;
  // Of a key that the extent can hold: how many of its blocks have only keys below.
  uint32_t RankIn(const char* index, const char* key) const {
    return LowerBoundInBlock(encoding_, index, key, options_.search);
  }

  // Which block of the extent can hold `key`; the index is reached as the options say.
  Status FindBlock(uint32_t extent, const char* key, uint32_t* block) const;
  // Calls use(const char* block), by pointer or, past the frames, in `buffer`.
  template <typename UseFn>
  Status UseBlock(uint32_t extent, uint32_t block, Region* buffer, const UseFn& use) const;
  // The same if it is in a frame; else which block has to be loaded first.
  template <typename Readers, typename UseFn>
  bool UseFrame(uint32_t extent, uint32_t block, const UseFn& use, uint32_t* missing) const;

  // Brings a block into a frame and makes it reachable, unless somebody else was faster or what
  // leads to it has gone: then nothing changes. Outside the epoch. kFull when no frame can be had.
  Status Load(uint32_t extent, uint32_t block) const;
  Status FillFrame(uint32_t frame, uint32_t extent, uint32_t block) const;
  bool InstallFrame(uint32_t frame, uint32_t extent, uint32_t block) const;
  Status ReadAside(uint32_t extent, uint32_t block, Region* buffer) const;
  // Through the cache: a block, or what there is to know of an extent.
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
  // To the index block of each extent; null when these are reached through the cache, and then the
  // table has no frames.
  std::unique_ptr<std::atomic<uint64_t>[]> roots_;
  mutable std::atomic<uint64_t> loaded_{0};
  mutable std::atomic<uint64_t> past_frames_{0};
};

}  // namespace lab

#endif  // HARNESS_LAB_TABLE_H_
