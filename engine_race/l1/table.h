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
// Thread-safe. The pool, the epochs and the cache outlive the table.
#ifndef ENGINE_RACE_L1_TABLE_H_
#define ENGINE_RACE_L1_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/l1/block_cache.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/extent_file.h"
#include "engine_race/l1/frame_pool.h"
#include "engine_race/l1/node_search.h"

namespace engine_race::l1 {

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
};

class Table {
 public:
  // `pool` has frames of kBlockBytes. `cache` may be null where nothing is reached through it.
  static Status Open(int dir_fd, const std::string& name, const TableOptions& options,
                     FramePool* pool, EpochManager* epochs, BlockCache* cache,
                     std::unique_ptr<Table>* table);
  // No lookup is under way. Its frames go back to the pool.
  ~Table();

  // Copies the payload of `key`: kNotFound, kCorruption, kIOError.
  Status Get(const char* key, char* payload) const;

  // The same of statuses.size() keys, which lie one behind the other as their payloads will. What
  // many lookups wait for is fetched while others go on, a level at a time.
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
    bool valid() const;
    const char* key() const;
    const char* payload() const;
    // Why it is not valid, beside the table's end: kCorruption, kIOError, kOutOfMemory.
    const Status& status() const;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  const ExtentFile& file() const { return *file_; }

 private:
  Table() = default;
  Status GetByPointer(const char* key, char* payload) const;
  // Past the frames, for who finds none free.
  Status GetFromDisk(uint32_t extent, const char* key, char* payload) const;
  // Brings a block into a frame and makes it reachable, unless somebody else was faster or what
  // leads to it has gone: then nothing changes. Outside the epoch. kFull when no frame can be had.
  Status Load(uint32_t extent, uint32_t block) const;

  std::unique_ptr<ExtentFile> file_;
  TableOptions options_;
  FramePool* pool_ = nullptr;
  EpochManager* epochs_ = nullptr;
  BlockCache* cache_ = nullptr;
  // To the index block of each extent.
  std::unique_ptr<std::atomic<uint64_t>[]> roots_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_TABLE_H_
