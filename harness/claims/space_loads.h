// The loads of the claims about space: writers that overwrite until they are stopped, and reads in
// an open loop. And samples of a store that is overwritten, with the amplifications that
// follow.
//
// Each load starts its own threads. A record's number gives its key, and all values are checkable.
// Samples are plain values. Thread safety: see each declaration.
#ifndef HARNESS_CLAIMS_SPACE_LOADS_H_
#define HARNESS_CLAIMS_SPACE_LOADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/claims/space_stores.h"
#include "harness/data/key_source.h"
#include "harness/measure/timed.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

// Any number of threads call these at once. Values have kValueSize bytes.
using PutFn = std::function<Status(uint64_t key, const char* value)>;
using GetFn = std::function<Status(uint64_t key, char* value)>;

// Threads that overwrite drawn records from the construction on until Stop. One thread owns it.
class Overwriters {
 public:
  struct Shape {
    uint32_t thread_count = 1;
    double rate = 0;  // writes a second of all threads together; 0: as fast as they can
    DrawShape draw = DrawShape::kUniform;
    uint64_t seed = 1;
  };

  // `records` outlives this.
  Overwriters(const SpaceRecords& records, const Shape& shape, PutFn put);
  ~Overwriters();

  // Acknowledged writes so far. Thread-safe.
  uint64_t count() const;
  // A write has failed. Thread-safe.
  bool failed() const { return failed_; }
  // Waits for the threads. Returns the first failure of a write.
  Status Stop();

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> done{0};
  };

  Status Write(uint32_t thread, const TimedThread& self);

  const SpaceRecords& records_;
  const Shape shape_;
  const RecordDraw draw_;
  const PutFn put_;
  const uint64_t begin_ns_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> failed_{false};
  std::vector<Slot> slots_;
  Status status_;  // once runner_ has ended
  // Starts the threads and waits for them.
  std::jthread runner_;
};

// The clock of an open loop, so that tests can have their own. Any thread calls it.
struct LoopClock {
  std::function<uint64_t()> now_ns;
  std::function<void(uint64_t ns)> sleep_until_ns;
};
LoopClock SteadyClock();

struct PacedReads {
  double rate = 0;  // reads a second of all threads together, not 0
  double seconds = 0;
  uint32_t thread_count = 1;
  uint64_t seed = 1;
};

// Reads random records, each at its intended time: rate * seconds reads in all. A latency counts
// from the intended start of its read. So a slow read also counts in those that had to wait for it.
// kCorruption for a wrong value, else the first failure of `get`.
Status RunPacedReads(const SpaceRecords& records, const PacedReads& reads, const GetFn& get,
                     const LoopClock& clock, LatencyHistogram* latency);

// The state of a run at one moment. All counts only grow, except for `disk_bytes`.
struct SpaceSample {
  double seconds = 0;         // since the run began
  uint64_t write_count = 0;   // acknowledged writes of one record each
  uint64_t disk_bytes = 0;    // blocks of all files of the store
  uint64_t log_bytes = 0;     // written to logs and journal
  uint64_t index_bytes = 0;   // written to the index on disk
  uint64_t moved_bytes = 0;   // of live records that reclaim wrote again
  uint64_t device_bytes = 0;  // written to the device, by all programs; 0: not known
};
using SpaceSamples = std::vector<SpaceSample>;
void to_json(nlohmann::json& json, const SpaceSample& sample);

// Bytes over those of `count` values; 0 without values. For live records it is the amplification of
// space, for writes that of writes.
double Amplification(uint64_t bytes, uint64_t count);
// The first sample of the second half, by the number of writes; 0 without samples.
size_t SecondHalf(const SpaceSamples& samples);
// The most disk bytes in the second half.
uint64_t PeakDiskBytes(const SpaceSamples& samples);
// Writes a second between the samples; 0 when no time passed.
double WriteRate(const SpaceSample& first, const SpaceSample& last);
// Megabytes of values a second.
inline double Megabytes(double writes) { return writes * kValueSize * 1e-6; }

// Takes samples of a store and its writers.
class SpaceProbe {
 public:
  // `store` may be null: then log, index and moved bytes are 0. All arguments outlive this.
  SpaceProbe(const std::string& dir, const Store* store, const Overwriters& writers);

  SpaceSample Take() const;

 private:
  const std::string& dir_;
  const Store* const store_;
  const Overwriters& writers_;
  const DeviceIo device_;
  const uint64_t begin_ns_;
};

struct WatchShape {
  // The watch ends with the first of these that is reached.
  double seconds = kNoLimitSeconds;
  uint64_t write_count = ~uint64_t{0};
  double sample_seconds = 0.25;
  // A store that takes more ends its run: reclaim cannot keep up, and the disk would run full.
  uint64_t most_bytes = ~uint64_t{0};
  uint64_t live_count = 1;
  std::string label = {};  // begins each line of progress; empty: none
};

// Samples writers that go on all the while. The first sample is taken at once, the last one at the
// end. kFull when the store takes too much, kIncomplete after an interrupt, kIOError when a write
// has failed.
Status WatchWriters(const WatchShape& shape, const Overwriters& writers, const SpaceProbe& probe,
                    SpaceSamples* samples);

// An open store that is overwritten.
struct OverwrittenStore {
  PutFn put;
  std::string dir;
  const Store* store = nullptr;  // may be null, as for SpaceProbe
};
// Overwrites records while each of the watches lasts, one after another. *samples gets those of
// the last one. The first failure of a write, else that of WatchWriters.
Status OverwriteAndWatch(const OverwrittenStore& overwritten, const SpaceRecords& records,
                         const Overwriters::Shape& shape, const std::vector<WatchShape>& watches,
                         SpaceSamples* samples);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_LOADS_H_
