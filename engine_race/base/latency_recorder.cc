#include "engine_race/base/latency_recorder.h"

#include <algorithm>
#include <bit>

#include "engine_race/base/parallel.h"
#include "engine_race/base/thread_number.h"

namespace engine_race {
namespace {

constexpr uint32_t kMaxShards = 8;

}  // namespace

LatencyRecorder::LatencyRecorder(bool on) {
  if (!on) return;
  const uint32_t shard_count = std::bit_ceil(std::min(AvailableCpuCount(), kMaxShards));
  shard_mask_ = shard_count - 1;
  shards_ = std::make_unique<Shard[]>(shard_count);
}

void LatencyRecorder::Record(uint64_t ns) {
  Shard& shard = shards_[ThreadNumber() & shard_mask_];
  // Relaxed, here and below: a statistic.
  shard.counts[LatencyHistogram::StepOf(ns)].fetch_add(1, std::memory_order_relaxed);
  shard.sum_ns.fetch_add(ns, std::memory_order_relaxed);
  uint64_t max = shard.max_ns.load(std::memory_order_relaxed);
  while (max < ns && !shard.max_ns.compare_exchange_weak(max, ns, std::memory_order_relaxed)) {
  }
}

LatencyHistogram LatencyRecorder::Snapshot() const {
  LatencyHistogram all;
  for (uint32_t i = 0; on() && i <= shard_mask_; ++i) {
    const Shard& shard = shards_[i];
    for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
      const uint64_t count = shard.counts[step].load(std::memory_order_relaxed);
      if (count > 0) all.AddStep(step, count, 0, 0);
    }
    const uint64_t sum_ns = shard.sum_ns.load(std::memory_order_relaxed);
    if (sum_ns > 0) all.AddStep(0, 0, sum_ns, shard.max_ns.load(std::memory_order_relaxed));
  }
  return all;
}

}  // namespace engine_race
