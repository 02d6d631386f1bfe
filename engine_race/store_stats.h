// Counts, sizes and latencies of an open store. Start at StoreStats.
//
// Plain values, a copy of a moment. Numbers of one copy were not all taken at one instant.
// engine_race/stats_text.h prints them for people and for Prometheus.
#ifndef ENGINE_RACE_STORE_STATS_H_
#define ENGINE_RACE_STORE_STATS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine_race/base/key_range.h"
#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

struct StoreStats {
  uint64_t record_count = 0;  // written since creation, overwritten and deleted ones included
  uint64_t synced_record_count = 0;  // of those, known to outlive power loss
  // Of this opening: calls of fdatasync, and writes that were acknowledged as durable.
  uint64_t flush_count = 0;
  uint64_t durable_write_count = 0;
  uint64_t log_memory_bytes = 0;
  uint64_t index_memory_bytes = 0;  // 0 before the first read or range
  // Of the index on disk: bytes of extents that this opening has written, and bytes of extents in
  // use.
  uint64_t index_written_bytes = 0;
  uint64_t index_disk_bytes = 0;
  // Of values that ranges and iterators read.
  uint64_t range_memory_bytes = 0;
  // Of the workers: rings, buffers, tasks. And of the asynchronous reads that are pending.
  uint64_t task_memory_bytes = 0;
  // Asynchronous reads that were started and whose functions have not returned: now, and at most
  // since the store was opened. Options::async_read_limit bounds them.
  uint64_t pending_async_read_count = 0;
  uint64_t most_pending_async_read_count = 0;
  // Of released iterators that wait to be used again.
  uint64_t iterator_memory_bytes = 0;
  // Frames of index blocks and hot values: the memory that they take with all descriptions, and may
  // take. Of that, the frames that hold values and those that hold blocks.
  uint64_t frame_memory_bytes = 0;
  uint64_t frame_limit_bytes = 0;
  uint64_t frame_value_bytes = 0;
  uint64_t frame_block_bytes = 0;
  // Hot values: reads of single records that found their value in a frame, reads that did not,
  // admissions and evictions.
  uint64_t frame_hit_count = 0;
  uint64_t frame_miss_count = 0;
  uint64_t frame_admission_count = 0;
  uint64_t frame_eviction_count = 0;
  // Blocks of the index: lookups that found theirs in a frame, and blocks that lookups read. Walks
  // over keys count in neither.
  uint64_t block_hit_count = 0;
  uint64_t block_miss_count = 0;
  uint64_t memory_budget_bytes = 0;
  // Snapshots and iterators that are held, and what they pin: memory, part of the index's, of
  // superseded records that one of them can still see.
  uint64_t view_count = 0;
  uint64_t view_pinned_bytes = 0;
  uint64_t oldest_view_age_ms = 0;
  uint32_t value_bytes = kValueBytes;  // of each value
  uint32_t bucket_count = 0;
  uint64_t bucket_capacity_records = 0;
  KeyRange key_range;  // The keys that the store takes.
  // Which back end serves MultiRead, ReadAsync, scans and index builds; before the first read,
  // which tries it, what the options ask for.
  std::string io_backend;
  std::string write_backend;  // which one writes the logs
  // Whether records are staged through a mapping, see Options::staging_mode; else with pwrite.
  bool staging_mapped = true;
  uint32_t path_count = 1;  // of paths that the values are striped over

  // The counts below are of calls of this opening that succeeded; a read that finds nothing is one
  // of them. A read is a call of Read or ReadInto, of a snapshot too. Each count only grows, and so
  // do the bytes of values below.
  uint64_t read_count = 0;
  uint64_t multi_read_count = 0;      // calls
  uint64_t multi_read_key_count = 0;  // keys of those calls
  uint64_t async_read_count = 0;
  uint64_t read_not_found_count = 0;  // of the reads, keys and asynchronous reads above
  uint64_t write_count = 0;
  uint64_t delete_count = 0;
  uint64_t range_count = 0;
  // Records that ranges have visited. A range adds its own when it ends.
  uint64_t range_record_count = 0;
  uint64_t snapshot_count = 0;
  uint64_t iterator_count = 0;  // iterators made; what they visit is counted nowhere
  uint64_t sync_count = 0;
  // Failures of calls, and of single keys of MultiRead, by the number of their code.
  std::array<uint64_t, kCodeCount> error_counts = {};
  // Bytes that this opening has written to the logs and the journal.
  uint64_t log_written_bytes = 0;
  // The sums of BucketSpace over all buckets.
  uint64_t live_bytes = 0;
  uint64_t dead_bytes = 0;
  // Of this opening. Bytes of entries and values that reclaim read; bytes of values that it wrote
  // again, which are in log_written_bytes too. Bytes of values whose slots it released.
  uint64_t reclaim_read_bytes = 0;
  uint64_t reclaim_moved_bytes = 0;
  uint64_t reclaim_freed_bytes = 0;
  // Of the whole process, as the kernel counts them: bytes that it had read from devices, and
  // written to devices or to the page cache.
  uint64_t process_read_bytes = 0;
  uint64_t process_written_bytes = 0;
  uint64_t uptime_us = 0;  // since the call of Open began

  // Bytes of values that reads and ranges have handed over, those of iterators left out.
  uint64_t read_value_bytes() const {
    const uint64_t reads = read_count + multi_read_key_count + async_read_count;
    return (reads - std::min(reads, read_not_found_count) + range_record_count) * value_bytes;
  }
  // Bytes of values whose writes were acknowledged.
  uint64_t written_value_bytes() const { return write_count * value_bytes; }
  // Of this opening: bytes that the engine wrote to logs, journal and index for each byte of
  // written_value_bytes(). 0 before the first write. Staged records count once they are in the
  // logs.
  double write_amplification() const {
    const auto all = static_cast<double>(log_written_bytes + index_written_bytes);
    const auto values = static_cast<double>(written_value_bytes());
    return values == 0 ? 0 : all / values;
  }
  // The part that reclaim has, from 0 to 1, in the bytes that the process had read from devices and
  // written. 0 where the kernel counts none, as in tmpfs.
  double reclaim_share() const {
    const auto all = static_cast<double>(process_read_bytes + process_written_bytes);
    const auto reclaims = static_cast<double>(reclaim_read_bytes + reclaim_moved_bytes);
    return all == 0 ? 0 : std::min(reclaims / all, 1.0);
  }
};

// Space on disk that the values of one bucket's records take: of live records, and of records that
// were overwritten or deleted. Reclaim and Store::Compact count them when they clean the bucket.
// Until the next cleaning, each later write counts as one that overwrites. A bucket that was not
// cleaned in this opening has no dead bytes.
struct BucketSpace {
  uint64_t live_bytes = 0;
  uint64_t dead_bytes = 0;
};

// The calls and steps whose latencies are measured.
enum class LatencyKind : uint8_t {
  kRead,        // Read and ReadInto
  kMultiRead,   // a whole call
  kAsyncRead,   // from ReadAsync until its function is called
  kWrite,       // Write and Delete
  kRange,       // a whole call, the visits included
  kSync,        // a call of Sync
  kGroupWrite,  // the write of a full group from staging to its log
  kFlush,       // the flush of a log file or of the journal to the device
};
inline constexpr size_t kLatencyKindCount = static_cast<size_t>(LatencyKind::kFlush) + 1;

struct StoreLatencies {
  const LatencyHistogram& Of(LatencyKind kind) const { return kinds[static_cast<size_t>(kind)]; }

  bool measured = false;  // as Options::latency_stats says
  std::array<LatencyHistogram, kLatencyKindCount> kinds;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STORE_STATS_H_
