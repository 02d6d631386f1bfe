// The context of every part of the scan room and of the walks of copies: the store's rooms below,
// options, counters.
//
// Thread safety: the references are to thread-safe rooms, the counters are atomic.
#ifndef ENGINE_RACE_SCAN_SCAN_CONTEXT_H_
#define ENGINE_RACE_SCAN_SCAN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/scan/buffer_layout.h"
#include "engine_race/scan/range_reader.h"

namespace engine_race {

struct ScanContext {
  // The frames may be null.
  ScanContext(const BucketLog& the_log, const Index& the_index, const Options& the_options,
              const RangeTuning& the_tuning = RangeTuning(), ValueFrames* the_frames = nullptr)
      : log(the_log),
        index(the_index),
        layout(the_log.geometry().layout, the_log.geometry().row_records()),
        frames(the_frames),
        options(the_options),
        tuning(the_tuning) {}

  const BucketLog& log;
  const Index& index;
  const BufferLayout layout;
  ValueFrames* const frames;
  const Options options;
  const RangeTuning tuning;
  // Counts scans begun. Entries collected from the index at a ticket hold every write that was
  // acknowledged before any scan with this ticket or a smaller one began.
  std::atomic<uint64_t> ticket{0};
  // Scans under way that share chunks.
  std::atomic<uint32_t> shared_scan_count{0};
  // Read from value files.
  std::atomic<uint64_t> read_bytes{0};
  // Records that scans have visited, counted as each scan ends.
  std::atomic<uint64_t> visited_count{0};
};

// Counts the records that one scan visits, and adds them to the others' when the scan ends.
class VisitCounter {
 public:
  explicit VisitCounter(ScanContext* context) : context_(*context) {}
  VisitCounter(const VisitCounter&) = delete;
  VisitCounter& operator=(const VisitCounter&) = delete;
  // Relaxed: a statistic.
  ~VisitCounter() { context_.visited_count.fetch_add(count_, std::memory_order_relaxed); }

  void CountOne() { ++count_; }

 private:
  ScanContext& context_;
  uint64_t count_ = 0;
};

// The entries of one bucket in a row of entries: those from first_entry to the next segment's.
struct Segment {
  uint32_t bucket = 0;
  uint32_t first_entry = 0;
  // BucketLog::ReuseCount and RecordCount before the index was asked.
  uint64_t reuse_count = 0;
  uint64_t record_count = 0;
};
// Whether these slots of the segment, which ascend, may have been given to other records since the
// index was asked. Those that a live view of `version` shows never are, unless another process
// writes the store. *failure: see BucketLog::IsReused.
inline bool IsStale(const ScanContext& context, const Segment& segment, uint64_t version,
                    std::span<const uint64_t> slots, Status* failure) {
  return (version == kLatestVersion || context.log.follows()) &&
         context.log.IsReused(segment.bucket, slots, segment.reuse_count, failure);
}

inline void VisitRecord(uint64_t key, const char* value, uint32_t value_bytes,
                        const RecordFn& visit) {
  char key_bytes[kKeyBytes];
  EncodeKey(key, key_bytes);
  visit(std::string_view(key_bytes, kKeyBytes), std::string_view(value, value_bytes));
}

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCAN_CONTEXT_H_
