// Ranges over two stores with the same keys. Since their indexes were built, part of the keys of
// one was overwritten, and nothing was written to the other.
//
// Both stores stay open, so that rounds alternate within seconds. Not thread-safe; a run starts the
// configured number of threads.
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

// The rates of passes by all threads, which the race's visitors check.
struct RangeRate {
  double records_per_second = 0;  // of each thread
  double cpu_ns = 0;              // of a visit
};

class ScanWritten {
 public:
  // `race` gives records, threads and memory. Both stores are made in its `dir`.
  explicit ScanWritten(const RaceConfig& race);
  ~ScanWritten();

  // Writes both stores, opens them, builds their indexes and overwrites a tenth of the keys of one.
  // Must come first. Like Range, it returns false after a failure, which failure() tells.
  bool Prepare();
  // Makes two passes over the overwritten store, or over the other.
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
