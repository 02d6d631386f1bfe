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
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_VISIT_FLOOR_H_
#define HARNESS_CLAIMS_VISIT_FLOOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/measure/workers.h"

namespace harness {

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

class VisitFloor {
 public:
  // `keys` and `values` outlive this.
  VisitFloor(const KeySource& keys, const ValueMaker& values, uint32_t thread_count)
      : keys_(keys), values_(values), thread_count_(thread_count) {}

  // Fills the memory with all threads; must come first. kOutOfMemory when there is too little.
  engine_race::Status Prepare();

  // Returns the CPU time of a visit in a pass by all threads, in ns; 0 after a failure, which
  // failure() tells.
  double Run(const VisitLoopShape& shape, LoopVisitors visitors);
  // Tries each of some shapes a few times and keeps the best for RunBest.
  void FindBest();
  double RunBest(LoopVisitors visitors) { return Run(best_, visitors); }
  const VisitLoopShape& best() const { return best_; }

  const std::string& failure() const { return failure_; }

 private:
  struct Record {
    uint64_t key = 0;
    const char* value = nullptr;
  };

  // Visits the records [begin, end) in order.
  template <typename Visit>
  void WalkChunk(uint64_t begin, uint64_t end, uint32_t ahead, const Visit& visit) const;
  // One thread's pass. A thread that fails still comes to the gate, where the others wait for it.
  template <typename Visit, typename Gate>
  void Walk(const VisitLoopShape& shape, const Visit& visit, Gate* gate, Failures* failures) const;
  template <typename Gate>
  void Pass(const VisitLoopShape& shape, LoopVisitors visitors, uint32_t thread, Gate* gate,
            Failures* failures) const;

  const KeySource& keys_;
  const ValueMaker& values_;
  const uint32_t thread_count_;
  engine_race::Region memory_;
  // In order of key. A few more follow the last one, for prefetches.
  std::vector<Record> records_;
  VisitLoopShape best_;
  std::string failure_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_VISIT_FLOOR_H_
