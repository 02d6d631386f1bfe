// Ranges over a store whose keys were partly overwritten since its index was built, beside the same
// over one that nothing was written to.
//
// Both stores are open all the time, so that rounds alternate within seconds. One thread at a time;
// a run starts as many as it is told.
#ifndef HARNESS_CLAIMS_SCAN_WRITTEN_H_
#define HARNESS_CLAIMS_SCAN_WRITTEN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/measure/workers.h"
#include "harness/race/phase.h"

namespace harness {

// Of passes by all threads, each checked by a race's visitors.
struct RangeRate {
  double records_per_second = 0;  // of one thread
  double cpu_ns = 0;              // of a visit
};

class ScanWritten {
 public:
  // `race` says which records, threads and memory; both stores are made in its `dir`.
  explicit ScanWritten(const RaceConfig& race);
  ~ScanWritten();

  // Writes both stores, opens them, builds their indices and overwrites a tenth of the keys of one.
  // Must come first. False after a failure, here and below: failure() tells it.
  bool Prepare();
  // Two passes over the store that was overwritten, or over the other.
  bool Range(bool overwritten, RangeRate* rate);

  std::string failure() const { return failures_.first(); }

 private:
  struct Part {
    RaceConfig race;
    std::unique_ptr<engine_race::Store> store;
  };

  bool OpenWithIndex(Part* part);
  void OverwriteTenth(engine_race::Store* store);

  const KeySource keys_;
  const ValueMaker values_;
  const KeySummary summary_;
  Part untouched_;
  Part overwritten_;
  Failures failures_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_SCAN_WRITTEN_H_
