// Records latencies from many threads, and measures the calls whose latencies they are.
//
// Up to eight shards, each a histogram that some of the threads share: as many as the process may
// run threads at once. Recording is three relaxed atomic operations on one shard. A recorder that
// is off takes no memory, and a call then pays for one branch.
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_BASE_LATENCY_RECORDER_H_
#define ENGINE_RACE_BASE_LATENCY_RECORDER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/base/clock.h"
#include "engine_race/base/latency_histogram.h"

namespace engine_race {

class LatencyRecorder {
 public:
  explicit LatencyRecorder(bool on);

  bool on() const { return shards_ != nullptr; }
  // Only while it is on.
  void Record(uint64_t ns);
  // Empty when it is off. Latencies that are recorded meanwhile may be in it in part: a count
  // without its share of the sum.
  LatencyHistogram Snapshot() const;

 private:
  struct alignas(64) Shard {
    std::array<std::atomic<uint64_t>, LatencyHistogram::kStepCount> counts = {};
    std::atomic<uint64_t> sum_ns{0};
    std::atomic<uint64_t> max_ns{0};
  };

  uint32_t shard_mask_ = 0;
  std::unique_ptr<Shard[]> shards_;
};

// Records how long it lives, if the recorder is on.
class LatencyTimer {
 public:
  explicit LatencyTimer(LatencyRecorder& recorder)
      : recorder_(recorder), began_ns_(recorder.on() ? MonotonicNs() : 0) {}
  LatencyTimer(const LatencyTimer&) = delete;
  LatencyTimer& operator=(const LatencyTimer&) = delete;
  ~LatencyTimer() {
    if (recorder_.on()) recorder_.Record(MonotonicNs() - began_ns_);
  }

 private:
  LatencyRecorder& recorder_;
  const uint64_t began_ns_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_LATENCY_RECORDER_H_
