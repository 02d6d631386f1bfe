// The contest's phases over any store: many threads write at random, read at random, and range over
// everything in order, twice. Each thread does at least one operation, however short the time.
//
// Every value that is read is checked.
#ifndef HARNESS_COMPARE_CONTEST_H_
#define HARNESS_COMPARE_CONTEST_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/compare/process.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

bool IsContestPhase(const std::string& phase);

// The records of an order, and its phase of the contest. Making it computes everything that is not
// the store's work, so the clock of the phase can begin afterwards.
class Contest {
 public:
  // `order` outlives this.
  explicit Contest(const CompareOrder& order);

  // Runs the order's phase, which is one of the contest's, over an open store. The caller measures
  // its time. An operation of a range is one record visited by one thread. *written_count is how
  // many records the store has at the end, see CompareOrder. The first failure of the store,
  // kCorruption for a wrong value, or kIncomplete when the user interrupts.
  Status Run(KvStore* store, const OnSecondFn& on_second, BenchResult* result,
             uint64_t* written_count) const;
  // Reads and checks the record that the order's round and opening draw.
  Status ReadOne(KvStore* store) const;

 private:
  uint64_t OperationCount() const;

  const CompareOrder& order_;
  const KeySource keys_;
  const ValueMaker values_;
  KeySummary expected_;  // of a range
};

}  // namespace engine_race::harness

#endif  // HARNESS_COMPARE_CONTEST_H_
