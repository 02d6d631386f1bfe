// The contest's phases over any store: many threads write at random, read at random, and range over
// everything in order, twice.
//
// Every value that is read is checked. Not thread-safe; a phase starts threads of its own.
#ifndef HARNESS_COMPARE_CONTEST_H_
#define HARNESS_COMPARE_CONTEST_H_

#include <cstdint>
#include <functional>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/compare/order.h"
#include "harness/kv/kv_store.h"

namespace harness {

// Called about once a second with the seconds since the phase began and the operations so far.
using OnSecondFn = std::function<void(double seconds, uint64_t operations)>;

bool IsContestPhase(const std::string& phase);

// Runs the order's phase, which is one of the contest's, over an open store. The caller measures
// the time of the phase. An operation of a range is one record visited by one thread.
// *written_count is how many records the store has at the end, see CompareOrder. The first failure
// of the store, kCorruption for a wrong value, or kIncomplete when the user interrupts.
engine_race::Status RunContest(const CompareOrder& order, KvStore* store,
                               const OnSecondFn& on_second, BenchResult* result,
                               uint64_t* written_count);

// Reads one record, which is drawn by the round.
engine_race::Status ReadOneRecord(const CompareOrder& order, KvStore* store);

}  // namespace harness

#endif  // HARNESS_COMPARE_CONTEST_H_
