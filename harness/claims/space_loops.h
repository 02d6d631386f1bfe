// The loads of the claims about space: a fill, writers that overwrite until they are stopped, and
// reads in an open loop.
//
// Each starts its own threads. A record's number gives its key, and all values are checkable.
// Thread safety: see each declaration.
#ifndef HARNESS_CLAIMS_SPACE_LOOPS_H_
#define HARNESS_CLAIMS_SPACE_LOOPS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/status.h"
#include "harness/bench/pace.h"
#include "harness/data/key_source.h"
#include "harness/data/record_draw.h"
#include "harness/data/value_maker.h"
#include "harness/measure/workers.h"

namespace harness {

// Any number of threads call these at once. Values have kValueSize bytes.
using PutFn = std::function<engine_race::Status(uint64_t key, const char* value)>;
using GetFn = std::function<engine_race::Status(uint64_t key, char* value)>;

// The records of a run. Immutable; thread-safe.
class SpaceRecords {
 public:
  SpaceRecords(uint64_t count, uint64_t seed)
      : keys_(KeyShape::kUniform, count, seed), values_(seed) {}

  uint64_t count() const { return keys_.record_count(); }
  // number < count().
  uint64_t KeyAt(uint64_t number) const { return keys_.KeyAt(number); }
  const ValueMaker& values() const { return values_; }

 private:
  const KeySource keys_;
  const ValueMaker values_;
};

// Writes every record once and returns the writes a second. The first failure of `put` ends it, as
// does an interrupt, with kIncomplete.
engine_race::Status FillRecords(const SpaceRecords& records, uint32_t thread_count,
                                const PutFn& put, double* rate);

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
  Overwriters(const Overwriters&) = delete;
  Overwriters& operator=(const Overwriters&) = delete;
  ~Overwriters();

  // Acknowledged writes so far. Thread-safe.
  uint64_t count() const;
  // A write has failed. Thread-safe.
  bool failed() const { return failures_.any(); }
  // Waits for the threads. Returns the first failure of a write.
  engine_race::Status Stop();

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> done{0};
  };

  void Write(uint32_t thread);

  const SpaceRecords& records_;
  const Shape shape_;
  const RecordDraw draw_;
  const PutFn put_;
  const uint64_t begin_ns_;
  std::atomic<bool> stopped_{false};
  Failures failures_;
  std::vector<Slot> slots_;
  std::vector<std::jthread> threads_;
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
engine_race::Status RunPacedReads(const SpaceRecords& records, const PacedReads& reads,
                                  const GetFn& get, const LoopClock& clock,
                                  engine_race::LatencyHistogram* latency);

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_LOOPS_H_
