// Extents of paged runs, read as wholes before a walk over many buckets comes to them.
//
// The walk goes in one direction: an extent that it takes drops those that were begun before it.
// Blocks come as they lie on disk. The walk checks them, as an extent may have been given up
// meanwhile. Of several walks that take turns, the first one has its extents read ahead.
//
// One thread, but for memory_bytes. Owner of its queue and of its memory, which is allocated by the
// first read.
#ifndef ENGINE_RACE_INDEX_RUNS_AHEAD_H_
#define ENGINE_RACE_INDEX_RUNS_AHEAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/failed_backends.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/l1/extent_store.h"

namespace engine_race {

class RunsAhead {
 public:
  // The most memory that is of use. An extent that does not fit into the memory is not read ahead.
  static constexpr uint32_t kMaxBytes = 4 * 1024 * 1024;
  static constexpr uint32_t kMaxExtents = 32;
  // Calls of GoTo that another walk's extents outlast.
  static constexpr uint32_t kPatience = 4;

  // `memory_bytes`: whole blocks, at most kMaxBytes. `failed` outlives it.
  RunsAhead(uint32_t memory_bytes, IoBackend backend, io::FailedBackends* failed)
      : memory_bytes_(memory_bytes), backend_(backend), failed_(failed) {}

  // The walk comes to this extent next, or again: it then stays while there is room for all. False,
  // and nothing should be begun: extents are there that another walk has not taken yet. That has
  // ended if it does not come back within kPatience such calls. Then its extents are dropped.
  bool GoTo(const l1::ExtentId& id) noexcept;
  // Begins to read an extent with so many blocks, unless it is there. False: there is no room for
  // it now, or no queue. `store` has the extent, and outlives the read.
  bool Begin(const l1::ExtentStore& store, const l1::ExtentId& id, uint32_t block_count) noexcept;
  // Waits for an extent with so many blocks. They are good until the next call. Null: it was not
  // begun, or could not be read.
  const char* Take(const l1::ExtentId& id, uint32_t block_count) noexcept;

  // From any thread. Relaxed: a statistic.
  uint64_t memory_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Read {
    l1::ExtentId id;
    uint32_t begin = 0;  // in the memory
    uint32_t end = 0;
    bool is_in_flight = true;
    bool is_good = false;
  };

  std::deque<Read>::iterator Find(const l1::ExtentId& id);
  Status Prepare();
  // Where so many bytes are free behind the last read. False: nowhere.
  bool FindRoom(uint32_t size_bytes, uint32_t* begin) const;
  // Takes in reads that have ended; waits for one unless `poll`.
  void Reap(bool poll) noexcept;
  void DropFirst() noexcept;

  const uint32_t memory_bytes_;
  const IoBackend backend_;
  io::FailedBackends* const failed_;
  bool is_first_taken_ = false;
  bool keeps_first_ = false;    // the walk may take it again
  uint32_t strange_count_ = 0;  // calls of GoTo in a row for extents that were not begun
  Region memory_;
  std::atomic<uint64_t> allocated_bytes_{0};
  // In the order of Begin. The tag of a read is its number: how many were begun before it.
  std::deque<Read> reads_;
  uint64_t first_number_ = 0;
  std::vector<io::ReadCompletion> completions_;
  // Last member: it is destroyed first and waits for the reads.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUNS_AHEAD_H_
