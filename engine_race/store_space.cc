// The calls of Store for its stats and its space.

#include <cstdint>
#include <utility>
#include <vector>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/stats_fields.h"
#include "engine_race/store.h"
#include "engine_race/store_impl.h"

namespace engine_race {

Status Store::Compact(const ProgressFn& on_progress) {
  return impl_->RunUncounted([&] { return impl_->reclaimer->Compact(on_progress); });
}

Status Store::SpaceByBucket(std::vector<BucketSpace>* buckets) const {
  return Guarded([&] {
    if (buckets == nullptr) return Status::InvalidArgument("the buckets to fill in are null");
    ENGINE_RACE_RETURN_IF_ERROR(impl_->CheckProcess());
    std::vector<BucketSpace> found(impl_->log->geometry().bucket_count);
    for (uint32_t bucket = 0; bucket < found.size(); ++bucket) {
      BucketSpace& space = found[bucket];
      impl_->reclaimer->BucketBytes(bucket, &space.live_bytes, &space.dead_bytes);
    }
    *buckets = std::move(found);
    return Status::Ok();
  });
}

StoreStats Store::Stats() const {
  StoreStats stats;
  if (impl_->fork_mark.InChild()) return stats;
  SetLogFigures(*impl_->log, &stats);
  stats.io_backend = io::BackendName(impl_->options.io_backend);
  stats.write_backend = "psync";
  impl_->readers->AddTo(&stats);
  const ReclaimStats reclaim = impl_->reclaimer->Stats();
  stats.live_bytes = reclaim.live_bytes;
  stats.dead_bytes = reclaim.dead_bytes;
  stats.reclaim_read_bytes = reclaim.read_bytes;
  stats.reclaim_moved_bytes = reclaim.moved_bytes;
  stats.reclaim_freed_bytes = reclaim.released_bytes;
  stats.memory_budget_bytes = impl_->options.memory_budget_bytes;
  SetCounts(impl_->stats.counters, &stats);
  SetProcessFigures(&stats);
  stats.uptime_us = (MonotonicNs() - impl_->began_ns) / 1000;
  return stats;
}

StoreLatencies Store::Latencies() const {
  StoreLatencies latencies;
  if (impl_->fork_mark.InChild()) return latencies;
  latencies.measured = impl_->options.latency_stats;
  SetLatencies(impl_->stats, *impl_->log, &latencies);
  return latencies;
}

}  // namespace engine_race
