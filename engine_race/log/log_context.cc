#include "engine_race/log/log_context.h"

#include <string>
#include <utility>

namespace engine_race {

LogContext::LogContext(const Options& the_options, StoreFiles the_files,
                       const numa::StorePlacement& the_placement)
    : options(the_options),
      files(std::move(the_files)),
      placement(the_placement),
      reserve(files, options),
      staging(files),
      buckets(files.identity.geometry.bucket_count),
      latch(options.log, options.read_only),
      group_writes(options.latency_stats),
      flushes(options.latency_stats) {
  for (Bucket& bucket : buckets) bucket.table = SlotTable(geometry());
  // Relaxed: no other thread has seen the log yet.
  has_row_file.store(files.rows.valid(), std::memory_order_relaxed);
}

Status LogContext::DamagedCounts(uint32_t bucket) const {
  return Status::Corruption(std::string(format::kStagingCountsName) + ": the counts of bucket " +
                            std::to_string(bucket) + " are damaged");
}

}  // namespace engine_race
