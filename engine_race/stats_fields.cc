#include "engine_race/stats_fields.h"

#include <sys/resource.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "engine_race/log/bucket_log.h"

namespace engine_race {
namespace {

template <auto kMember>
constexpr StatsField FieldOf(std::string_view name, std::string_view metric, std::string_view label,
                             std::string_view help, double unit = 1) {
  using Number = std::remove_cvref_t<decltype(std::declval<StoreStats>().*kMember)>;
  return {name,
          metric,
          label,
          help,
          unit,
          [](const StoreStats& stats) { return static_cast<uint64_t>(stats.*kMember); },
          [](uint64_t value, StoreStats* stats) { stats->*kMember = static_cast<Number>(value); }};
}

using S = StoreStats;

constexpr double kPercent = 0.01;
uint64_t ToPercent(double ratio) { return static_cast<uint64_t>(std::llround(ratio / kPercent)); }

constexpr StatsField kFields[] = {
    FieldOf<&S::read_count>("read_count", "calls_total", "call=\"read\"",
                            "Calls that succeeded; a read that finds nothing is one of them."),
    FieldOf<&S::multi_read_count>("multi_read_count", "calls_total", "call=\"multi_read\"", ""),
    FieldOf<&S::async_read_count>("async_read_count", "calls_total", "call=\"async_read\"", ""),
    FieldOf<&S::write_count>("write_count", "calls_total", "call=\"write\"", ""),
    FieldOf<&S::delete_count>("delete_count", "calls_total", "call=\"delete\"", ""),
    FieldOf<&S::range_count>("range_count", "calls_total", "call=\"range\"", ""),
    FieldOf<&S::snapshot_count>("snapshot_count", "calls_total", "call=\"snapshot\"", ""),
    FieldOf<&S::iterator_count>("iterator_count", "calls_total", "call=\"iterator\"", ""),
    FieldOf<&S::sync_count>("sync_count", "calls_total", "call=\"sync\"", ""),
    FieldOf<&S::multi_read_key_count>("multi_read_key_count", "multi_read_keys_total", "",
                                      "Keys of MultiRead that were answered."),
    FieldOf<&S::read_not_found_count>("read_not_found_count", "reads_not_found_total", "",
                                      "Reads and keys of MultiRead that found nothing."),
    FieldOf<&S::range_record_count>("range_record_count", "range_records_total", "",
                                    "Records that ranges have visited, added when a range ends."),
    {"read_value_bytes", "read_value_bytes_total", "",
     "Bytes of values that reads and ranges have handed over.", 1,
     [](const S& stats) { return stats.read_value_bytes(); }, nullptr},
    {"written_value_bytes", "written_value_bytes_total", "",
     "Bytes of values whose writes were acknowledged.", 1,
     [](const S& stats) { return stats.written_value_bytes(); }, nullptr},
    FieldOf<&S::log_written_bytes>("log_written_bytes", "log_written_bytes_total", "",
                                   "Bytes written to the logs and the journal."),
    FieldOf<&S::index_written_bytes>("index_written_bytes", "index_written_bytes_total", "",
                                     "Bytes of extents of the index that were written."),
    FieldOf<&S::reclaim_read_bytes>("reclaim_read_bytes", "reclaim_read_bytes_total", "",
                                    "Bytes of entries and values that reclaim read."),
    FieldOf<&S::reclaim_moved_bytes>("reclaim_moved_bytes", "reclaim_moved_bytes_total", "",
                                     "Bytes of live values that reclaim wrote again."),
    FieldOf<&S::reclaim_freed_bytes>("reclaim_freed_bytes", "reclaim_freed_bytes_total", "",
                                     "Bytes of values whose slots reclaim released."),
    FieldOf<&S::process_read_bytes>("process_read_bytes", "process_read_bytes_total", "",
                                    "Bytes that the process had read from devices."),
    FieldOf<&S::process_written_bytes>(
        "process_written_bytes", "process_written_bytes_total", "",
        "Bytes that the process had written to devices or to the page cache."),
    FieldOf<&S::flush_count>("flush_count", "flushes_total", "", "Calls of fdatasync."),
    FieldOf<&S::durable_write_count>("durable_write_count", "durable_writes_total", "",
                                     "Writes that were acknowledged as durable."),
    FieldOf<&S::frame_hit_count>("frame_hit_count", "value_frame_hits_total", "",
                                 "Reads of single records that found their value in a frame."),
    FieldOf<&S::frame_miss_count>("frame_miss_count", "value_frame_misses_total", "",
                                  "Reads of single records that did not."),
    FieldOf<&S::frame_admission_count>("frame_admission_count", "value_frame_admissions_total", "",
                                       "Values that were put into a frame."),
    FieldOf<&S::frame_eviction_count>("frame_eviction_count", "value_frame_evictions_total", "",
                                      "Values that were evicted from their frame."),
    FieldOf<&S::block_hit_count>("block_hit_count", "index_block_hits_total", "",
                                 "Lookups that found their block of the index in a frame."),
    FieldOf<&S::block_miss_count>("block_miss_count", "index_block_misses_total", "",
                                  "Blocks of the index that lookups read."),
    FieldOf<&S::record_count>(
        "record_count", "records", "",
        "Records written since the store was made, overwritten and deleted ones included."),
    FieldOf<&S::synced_record_count>("synced_record_count", "synced_records", "",
                                     "Of these, records that are known to outlive power loss."),
    FieldOf<&S::live_bytes>("live_bytes", "live_bytes", "",
                            "Space that values of live records take, as last counted."),
    FieldOf<&S::dead_bytes>(
        "dead_bytes", "dead_bytes", "",
        "Space that values of overwritten and deleted records take, as last counted."),
    {"write_amplification_percent", "write_amplification_ratio", "",
     "Bytes written to logs, journal and index for each byte of values written.", kPercent,
     [](const S& stats) { return ToPercent(stats.write_amplification()); }, nullptr},
    {"reclaim_share_percent", "reclaim_share_ratio", "",
     "The part that reclaim has in the bytes that the process read and wrote.", kPercent,
     [](const S& stats) { return ToPercent(stats.reclaim_share()); }, nullptr},
    FieldOf<&S::log_memory_bytes>("log_memory_bytes", "memory_bytes", "part=\"log\"",
                                  "Memory that the parts of the store take."),
    FieldOf<&S::index_memory_bytes>("index_memory_bytes", "memory_bytes", "part=\"index\"", ""),
    FieldOf<&S::range_memory_bytes>("range_memory_bytes", "memory_bytes", "part=\"ranges\"", ""),
    FieldOf<&S::task_memory_bytes>("task_memory_bytes", "memory_bytes", "part=\"workers\"", ""),
    FieldOf<&S::iterator_memory_bytes>("iterator_memory_bytes", "memory_bytes",
                                       "part=\"iterators\"", ""),
    FieldOf<&S::frame_memory_bytes>("frame_memory_bytes", "memory_bytes", "part=\"frames\"", ""),
    FieldOf<&S::memory_budget_bytes>("memory_budget_bytes", "memory_budget_bytes", "",
                                     "Memory that the store may take."),
    FieldOf<&S::frame_limit_bytes>("frame_limit_bytes", "frame_limit_bytes", "",
                                   "Memory that frames may take now."),
    FieldOf<&S::frame_value_bytes>("frame_value_bytes", "frame_bytes", "holds=\"values\"",
                                   "Memory of frames by what they hold."),
    FieldOf<&S::frame_block_bytes>("frame_block_bytes", "frame_bytes", "holds=\"blocks\"", ""),
    FieldOf<&S::index_disk_bytes>("index_disk_bytes", "index_disk_bytes", "",
                                  "Space on disk that extents of the index take."),
    FieldOf<&S::pending_async_read_count>(
        "pending_async_read_count", "pending_async_reads", "",
        "Asynchronous reads that were started and whose functions have not returned."),
    FieldOf<&S::most_pending_async_read_count>("most_pending_async_read_count",
                                               "most_pending_async_reads", "",
                                               "The most of them at one time."),
    FieldOf<&S::view_count>("view_count", "views", "", "Snapshots and iterators that are held."),
    FieldOf<&S::view_pinned_bytes>("view_pinned_bytes", "view_pinned_bytes", "",
                                   "Memory of superseded records that a view can still see."),
    FieldOf<&S::oldest_view_age_ms>("oldest_view_age_ms", "oldest_view_age_seconds", "",
                                    "How long the oldest view has been held.", 1e-3),
    FieldOf<&S::value_bytes>("value_bytes", "value_bytes", "", "The size of each value."),
    FieldOf<&S::bucket_count>("bucket_count", "buckets", "", "Buckets of the store."),
    FieldOf<&S::bucket_capacity_records>("bucket_capacity_records", "bucket_capacity_records", "",
                                         "Records that one bucket has room for."),
    FieldOf<&S::staging_mapped>("staging_mapped", "staging_mapped", "",
                                "1 where records are staged through a mapping, 0 with pwrite."),
    FieldOf<&S::path_count>("path_count", "paths", "", "Paths that the values are striped over."),
    FieldOf<&S::uptime_us>("uptime_us", "uptime_seconds", "", "How long the store has been open.",
                           1e-6),
};

constexpr std::array<std::string_view, kLatencyKindCount> kLatencyNames = {
    "read", "multi_read", "async_read", "write", "range", "sync", "group_write", "flush"};

}  // namespace

std::span<const StatsField> StatsFields() { return kFields; }

void SetCounts(const OpCounters& counters, StoreStats* to) {
  const auto sum = [&counters](OpCounter counter) { return counters.Sum(counter); };
  to->read_not_found_count = 0;
  const auto sum_reads = [&](OpCounter found, OpCounter not_found) {
    const uint64_t not_found_count = sum(not_found);
    to->read_not_found_count += not_found_count;
    return sum(found) + not_found_count;
  };
  to->read_count = sum_reads(OpCounter::kReadsFound, OpCounter::kReadsNotFound);
  to->multi_read_count = sum(OpCounter::kMultiReads);
  to->multi_read_key_count =
      sum_reads(OpCounter::kMultiReadKeysFound, OpCounter::kMultiReadKeysNotFound);
  to->async_read_count = sum_reads(OpCounter::kAsyncReadsFound, OpCounter::kAsyncReadsNotFound);
  to->write_count = sum(OpCounter::kWrites);
  to->delete_count = sum(OpCounter::kDeletes);
  to->range_count = sum(OpCounter::kRanges);
  to->snapshot_count = sum(OpCounter::kSnapshots);
  to->iterator_count = sum(OpCounter::kIterators);
  to->sync_count = sum(OpCounter::kSyncs);
  for (size_t code = 0; code < kCodeCount; ++code) {
    to->error_counts[code] = counters.Errors(static_cast<Code>(code));
  }
}

void SetLogFigures(const BucketLog& log, StoreStats* to) {
  const Geometry& geometry = log.geometry();
  to->record_count = log.RecordCount();
  to->synced_record_count = 0;
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    to->synced_record_count += log.SyncedWatermark(bucket);
  }
  to->flush_count = log.flush_count();
  to->durable_write_count = log.durable_write_count();
  to->log_memory_bytes = log.memory_bytes();
  to->log_written_bytes = log.written_bytes();
  to->staging_mapped = log.staging_mapped();
  to->path_count = log.path_count();
  to->value_bytes = geometry.value_bytes();
  to->bucket_count = geometry.bucket_count;
  to->key_range = geometry.keys();
  to->bucket_capacity_records = geometry.bucket_capacity_records;
}

void SetProcessFigures(StoreStats* to) {
  struct rusage usage;
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    constexpr uint64_t kBlockBytes = 512;
    to->process_read_bytes = static_cast<uint64_t>(usage.ru_inblock) * kBlockBytes;
    to->process_written_bytes = static_cast<uint64_t>(usage.ru_oublock) * kBlockBytes;
  }
}

void SetLatencies(const OpStats& stats, const BucketLog& log, StoreLatencies* to) {
  const auto set = [to](LatencyKind kind, LatencyHistogram histogram) {
    to->kinds[static_cast<size_t>(kind)] = std::move(histogram);
  };
  set(LatencyKind::kRead, stats.reads.Snapshot());
  set(LatencyKind::kMultiRead, stats.multi_reads.Snapshot());
  set(LatencyKind::kAsyncRead, stats.async_reads.Snapshot());
  set(LatencyKind::kWrite, stats.writes.Snapshot());
  set(LatencyKind::kRange, stats.ranges.Snapshot());
  set(LatencyKind::kSync, stats.syncs.Snapshot());
  set(LatencyKind::kGroupWrite, log.group_write_latencies());
  set(LatencyKind::kFlush, log.flush_latencies());
}

std::string_view LatencyKindName(LatencyKind kind) {
  return kLatencyNames[static_cast<size_t>(kind)];
}

}  // namespace engine_race
