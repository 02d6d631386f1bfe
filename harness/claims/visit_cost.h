// The cost of a visit of a range, beside the least that it could be. The store lies on tmpfs, where
// the device costs only a copy, and the race's visitors visit it.
//
// A round measures three runs. The first opens the store afresh and ranges over it twice with all
// threads. The second only does the store's reads. The third is a bare loop of the same visitors
// over the same values in memory. All figures are CPU time of the whole process.
//
// Not thread-safe; a run starts the configured number of threads.
#ifndef HARNESS_CLAIMS_VISIT_COST_H_
#define HARNESS_CLAIMS_VISIT_COST_H_

#include <pthread.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/race/runner.h"

namespace engine_race::harness {

enum class LoopVisitors {
  kRace,         // one thread checks every byte, the others both ends of a value
  kInlinedRace,  // as kRace, but inlined: shows the cost of the calls
  kInlinedEnds,  // as kInlinedRace, but no thread checks every byte
};

struct VisitLoopShape {
  uint32_t chunk_records = 0;  // 0: threads do not wait for each other
  uint32_t records_ahead = 0;  // 0: nothing is fetched ahead

  // "chunks of 1024, 6 ahead"
  std::string ToString() const;
};

// The least that a visit of a range can cost: bare loops of threads over values in memory.
//
// Values lie in shuffled order, as those of a range do. Every thread visits all of them in order of
// key. It calls a std::function that holds a race's visitor, as a store does. The loop omits the
// rest of an engine's work: reads, checksums, an index.
//
// Threads at different positions would each fetch their lines from memory. So the threads walk in
// chunks: none begins a chunk before all have ended the last one. The first and last line of a
// value, which a visitor looks at, are prefetched some records ahead. The best chunk and distance
// depend on the caches; FindBest tries several.
class VisitFloor {
 public:
  // `keys` and `values` outlive this.
  VisitFloor(const KeySource& keys, const ValueMaker& values, uint32_t thread_count)
      : keys_(keys), values_(values), thread_count_(thread_count) {}

  // Fills the memory with all threads; must come first. kOutOfMemory when there is too little.
  Status Prepare();

  // *ns gets the CPU time of a visit in a pass by all threads.
  Status Run(const VisitLoopShape& shape, LoopVisitors visitors, double* ns);
  // Tries each of some shapes a few times and keeps the best for RunBest.
  Status FindBest();
  Status RunBest(LoopVisitors visitors, double* ns) { return Run(best_, visitors, ns); }
  const VisitLoopShape& best() const { return best_; }

 private:
  struct Record {
    uint64_t key = 0;
    const char* value = nullptr;
  };

  // One thread's pass. A thread that fails still comes to the gate, where the others wait for it.
  template <typename Visit>
  Status Walk(const VisitLoopShape& shape, const Visit& visit, pthread_barrier_t* gate) const;
  Status Pass(const VisitLoopShape& shape, LoopVisitors visitors, uint32_t thread,
              pthread_barrier_t* gate) const;

  const KeySource& keys_;
  const ValueMaker& values_;
  const uint32_t thread_count_;
  Region memory_;
  // In order of key. A few more follow the last one, for prefetches.
  std::vector<Record> records_;
  VisitLoopShape best_;
};

// Returns `race` with another memory budget: ranges can keep about the same part of the values as
// in a race of the default size.
RaceConfig WithRaceMemory(RaceConfig race);

// One pass of all threads over everything.
struct VisitPass {
  double seconds = 0;
  double cpu_ns = 0;  // of a visit of one thread
};
using VisitPasses = std::array<VisitPass, kRangePasses>;

// A store that the race's visitors range over.
class VisitedStore {
 public:
  // `race` gives records, threads, memory and the store's directory, which the caller removes.
  explicit VisitedStore(const RaceConfig& race)
      : race_(race),
        keys_(race.keys, race.record_count(), race.seed),
        values_(race.seed),
        summary_(keys_.Summarize()) {}

  // Writes the store; must come first.
  Status Write();
  // Opens it and builds its index, which is no part of a visit.
  Status Open();
  void Close() { store_.reset(); }
  // Overwrites a tenth of the records with their old values, so that ranges find the same data.
  Status OverwriteTenth();
  Status Visit(VisitPasses* passes);

  const RaceConfig& race() const { return race_; }
  const KeySource& keys() const { return keys_; }
  const ValueMaker& values() const { return values_; }
  uint64_t record_count() const { return summary_.distinct_count; }
  // The part of the values that the memory of ranges can keep from one pass to the next.
  double KeptFraction() const;

 private:
  const RaceConfig race_;
  const KeySource keys_;
  const ValueMaker values_;
  const KeySummary summary_;
  std::unique_ptr<Store> store_;
};

// Nanoseconds of CPU time, each for one visit of one thread.
struct VisitCosts {
  std::array<double, kRangePasses> visit_ns = {};
  // The bare reader's time for the values that the pass had to read. The first pass reads all
  // values, the second those that the memory of ranges cannot have kept.
  std::array<double, kRangePasses> reads_ns = {};
  double floor_ns = 0;
  // The floor with inlined visitors, and with inlined visitors that check only the ends of a value.
  double inlined_floor_ns = 0;
  double ends_floor_ns = 0;

  double mean_visit_ns() const { return (visit_ns[0] + visit_ns[1]) / 2; }
  double mean_reads_ns() const { return (reads_ns[0] + reads_ns[1]) / 2; }
  double over_floor() const { return (mean_visit_ns() - mean_reads_ns()) / floor_ns; }
};
static_assert(kRangePasses == 2);

class VisitCost {
 public:
  explicit VisitCost(const RaceConfig& race)
      : visited_(race), floor_(visited_.keys(), visited_.values(), race.thread_count) {}

  // Writes the store, fills the floor's memory and finds the best bare loop; must come first.
  Status Prepare();
  Status Round(VisitCosts* costs);

  const VisitLoopShape& floor_shape() const { return floor_.best(); }

 private:
  VisitedStore visited_;
  VisitFloor floor_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_VISIT_COST_H_
