// The pipelined range reader: the room's front page.
//
// An I/O coordinator thread, started by the first scan that needs it, keeps large direct reads in
// flight ahead of the scanning threads. It loads chunks: the records of runs of neighbouring keys.
// All scans that pass over a chunk share it. Chunks stay in memory as long as the budget allows, so
// a second pass uses those that are still there.
// Short scans read for themselves.
//
// Owner of the context, the coordinator and the windows; IteratorPool borrows the first and the
// last. Thread safety: Scan from any number of threads, also from inside a visit.
#ifndef ENGINE_RACE_SCAN_RANGE_READER_H_
#define ENGINE_RACE_SCAN_RANGE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "engine_race/base/memory_share.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

struct ScanContext;
class WindowPool;

// Called with the 8 bytes of a key and the bytes of its value, valid during the call. A scan
// calls the function that the store's caller gave, once a record, with nothing in between.
using RecordFn = std::function<void(std::string_view key, std::string_view value)>;

struct RangeTuning {
  // Bounds the time that goes to first touches of memory. In a virtual machine whose host must find
  // the memory first, keeping chunks in fresh memory can cost more than reading them again. So
  // memory in use grows beyond the least that scans need only within this part of the time spent
  // reading.
  uint32_t touch_time_percent = 5;
  // Bounds the time in which a walk admits values to free frames, as a percentage of its other
  // time.
  uint32_t admit_time_percent = 100;
};

class RangeReader final : public MemoryUser {
 public:
  // How much of a budget is for windows, in which short scans read for themselves.
  static uint64_t WindowBytes(uint64_t buffer_budget_bytes, const ValueLayout& values);

  // `buffer_budget_bytes` bounds the chunks and everything else that scans allocate. Chunks are
  // booked from `share`, buffer by buffer, unless that is null. Scans that read for themselves copy
  // values from `frames`, which may be null.
  RangeReader(const BucketLog& log, const Index& index, const Options& options,
              uint64_t buffer_budget_bytes, const RangeTuning& tuning = RangeTuning(),
              MemoryShare* share = nullptr, ValueFrames* frames = nullptr);
  ~RangeReader();

  // Visits the records with keys in [first_key, last_key] in ascending order. An exception of
  // `visit` leaves Scan. On an error the records before it have been visited.
  Status Scan(uint64_t first_key, uint64_t last_key, const RecordFn& visit);

  // How often a scan was given a chunk.
  uint64_t UseCount() const noexcept override;
  // Drops chunks that no scan needs now, those kept for later scans first.
  void ShrinkTo(uint64_t bytes) noexcept override;

  // Touched memory, chunks kept for later scans included.
  uint64_t memory_bytes() const;
  // Read from the value logs so far.
  uint64_t read_bytes() const;
  // Records visited by scans that have ended, those at snapshots included.
  uint64_t visited_count() const;
  // The most chunks that were loaded while one scan waited for its next one.
  uint64_t longest_wait_chunks() const;

  // Borrowed by the iterators of this store, which end first.
  ScanContext* context();
  WindowPool* window_pool();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_RANGE_READER_H_
