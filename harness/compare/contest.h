// The contest's phases over any store: many threads write at random, read at random, and range over
// everything in order, twice. Each thread does at least one operation, however short the time.
//
// Every value that is read is checked. Not thread-safe; a phase starts threads of its own.
#ifndef HARNESS_COMPARE_CONTEST_H_
#define HARNESS_COMPARE_CONTEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/compare/order.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"

namespace harness {

// Called about once a second with the seconds since the phase began and the operations so far.
using OnSecondFn = std::function<void(double seconds, uint64_t operations)>;

bool IsContestPhase(const std::string& phase);

// One phase of the contest, ready to run. Making it computes everything that is not the store's
// work, so the clock of the phase can begin afterwards.
class Contest {
 public:
  // `order` is of one of the contest's phases and outlives this.
  explicit Contest(const CompareOrder& order);
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;
  ~Contest();

  // Runs the phase over an open store, once. The caller measures its time. An operation of a range
  // is one record visited by one thread. *written_count is how many records the store has at the
  // end, see CompareOrder. The first failure of the store, kCorruption for a wrong value, or
  // kIncomplete when the user interrupts.
  engine_race::Status Run(KvStore* store, const OnSecondFn& on_second, BenchResult* result,
                          uint64_t* written_count);

 private:
  class Phase;
  const std::unique_ptr<Phase> phase_;
};

// Reads and checks records of an order's dataset by their number. Thread-safe.
class RecordReader {
 public:
  explicit RecordReader(const CompareOrder& order);

  uint64_t KeyAt(uint64_t index) const { return keys_.KeyAt(index); }
  const KeySource& keys() const { return keys_; }
  const ValueMaker& values() const { return values_; }

  // `value` is memory for the value.
  engine_race::Status Read(KvStore* store, uint64_t index, char* value) const;
  // Reads the record that the order's round and opening draw.
  engine_race::Status ReadOne(KvStore* store) const;

 private:
  const CompareOrder& order_;
  const KeySource keys_;
  const ValueMaker values_;
};

}  // namespace harness

#endif  // HARNESS_COMPARE_CONTEST_H_
