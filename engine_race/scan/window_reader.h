// Reads the next records of one scan for that scan alone. Users are short ranges, scans that have
// left the shared pass, ranges at a snapshot, and iterators that read values ahead.
//
// Values in frames are copied. The others are read from the log: one read for neighbouring slots,
// several reads overlapped.
//
// It never waits for memory: windows are taken from the pool while some are free, otherwise a few
// records' worth comes from the heap.
//
// WindowPool is thread-safe. A WindowReader belongs to one scan.
// A reader gives its windows back to its pool; the pool outlives it unless it is told otherwise.
// Invariant: the values of a reading are good until the next one.
#ifndef ENGINE_RACE_SCAN_WINDOW_READER_H_
#define ENGINE_RACE_SCAN_WINDOW_READER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/scan/load_plan.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {

// Memory and read queues for scans that read for themselves, used again by one after another.
class WindowPool {
 public:
  static constexpr uint32_t kWindowRecords = 64;
  static constexpr uint32_t kWindowBytes = kWindowRecords * kValueBytes;
  // The most that one reading of a long walk brings. It takes as much again for gaps between slots.
  static constexpr uint32_t kWalkRecords = 1024;

  // Refused memory leaves a pool without windows.
  WindowPool(const ScanContext& context, uint32_t window_count);

  // Memory for the values of one reader.
  struct Windows {
    std::vector<uint32_t> buffers;  // empty: memory of its own
    std::vector<char*> data;
    uint32_t record_count = 0;

    char* At(uint32_t position) const {
      return data[position / kWindowRecords] + uint64_t{position % kWindowRecords} * kValueBytes;
    }
  };
  // Takes windows for `record_count` records while more than half of the pool is free, and gives
  // back what is more. With `may_allocate` it takes one in any case, or allocates a small one.
  Status TakeWindows(uint32_t record_count, bool may_allocate, Windows* windows);
  void GiveWindows(Windows* windows);
  // Releases windows when their pool is gone.
  static void AbandonWindows(Windows* windows);

  // Null when enough are in use: then blocking reads must do.
  std::unique_ptr<io::ReadQueue> TakeQueue();
  // Takes the queue back, with no read in flight.
  void GiveQueue(std::unique_ptr<io::ReadQueue> queue);

  uint64_t memory_bytes() const { return pool_.touched_bytes() + heap_bytes_.load(); }

 private:
  static constexpr uint32_t kQueueDepth = WindowPool::kWindowRecords;

  const ScanContext& context_;
  mutable std::mutex mutex_;
  BufferPool pool_;
  std::vector<std::unique_ptr<io::ReadQueue>> queues_;
  uint32_t queues_made_ = 0;
  std::atomic<uint64_t> heap_bytes_{0};
};

class WindowReader {
 public:
  WindowReader(ScanContext* context, WindowPool* pool)
      : context_(context), pool_(pool), planner_(WindowPool::kWindowRecords) {}
  ~WindowReader() { GiveBack(); }
  WindowReader(const WindowReader&) = delete;
  WindowReader& operator=(const WindowReader&) = delete;

  // Reads the first records of [first_key, last_key] that a view of `version` shows. They are as
  // many as the windows hold, and at most `max_records`, which is not 0. next_key() is where to go
  // on, or complete() says that there are no more.
  Status Read(uint64_t first_key, uint64_t last_key, uint64_t version = kLatestVersion,
              uint32_t max_records = WindowPool::kWindowRecords);

  // Makes sure of windows for a reading of `max_records`. *record_count: how many it may bring.
  // That is 0 if no window is free and `may_allocate` is false.
  Status Reserve(uint32_t max_records, bool may_allocate, uint32_t* record_count);

  // Which of the records read is that of `key`.
  bool Find(uint64_t key, uint32_t* entry) const;
  // Its value, verified, good until the next reading.
  Status Value(uint32_t entry, const char** value);

  // Forgets what was read.
  void Clear();
  // Gives the windows back to the pool and keeps the rest.
  void GiveBack();
  // GiveBack when the pool is gone.
  void Abandon();
  // Beside the windows.
  uint64_t memory_bytes() const;

  // Calls visit(key, value) for each record read, in order, verified just before; ends with the
  // first error, a failed Read's included.
  template <typename Visit>
  Status VisitAll(const Visit& visit) {
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      const char* value = nullptr;
      ENGINE_RACE_RETURN_IF_ERROR(Value(i, &value));
      visit(entries_[i].key, value);
    }
    return collect_status_;
  }

  uint32_t record_count() const { return static_cast<uint32_t>(entries_.size()); }
  bool complete() const { return complete_; }
  uint64_t next_key() const { return next_key_; }

 private:
  void Collect(uint64_t first_key, uint64_t last_key, uint64_t version, uint32_t max_records);
  void TakeHot(uint64_t version);
  void Plan();
  void ReadPlanned();
  // Reads the values that are staged. Value would do it later.
  void ReadStaged();
  // Throws nothing: the queue goes back in any case.
  void ReadOverlapped(io::ReadQueue* queue);
  void CheckCompletions();
  void FailRead(const PlannedRead& read, uint32_t first_bad, const Status& status);

  ScanContext* const context_;
  WindowPool* const pool_;
  WindowPool::Windows windows_;
  LoadPlanner planner_;
  LoadPlan plan_;
  std::vector<IndexEntry> entries_;
  std::vector<Segment> segments_;
  // The first positions have values from frames, which are verified.
  uint32_t hot_count_ = 0;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
  Status collect_status_;
  Status read_status_;
  uint64_t next_key_ = 0;
  bool complete_ = false;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_WINDOW_READER_H_
