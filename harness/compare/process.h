// A phase of a comparison: its order, its process below a cap on memory, and the contest's phases.
//
// A program that calls RunCompareProcess has kCompareWork among the works of its children.
#ifndef HARNESS_COMPARE_PROCESS_H_
#define HARNESS_COMPARE_PROCESS_H_

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

// The order that the process of one phase of a comparison gets, and its answer. Both travel as
// JSON.

// The name of the store that the others are compared with.
inline constexpr char kEngineName[] = "engine_race";

// The contest's phases. Every other phase is named after the benchmark that it runs.
inline constexpr char kWritePhase[] = "write";
// Writes, unmeasured, the records that the time limit of the writing has left.
inline constexpr char kWriteRestPhase[] = "write_rest";
// The first opening after the writing, and an opening once the store has been closed again. Both
// begin with a cold page cache.
inline constexpr char kOpenAfterLoadPhase[] = "open_after_load";
inline constexpr char kOpenPhase[] = "open";
inline constexpr char kReadPhase[] = "read";
inline constexpr char kRangePhase[] = "range";

inline bool IsOpening(const std::string& phase) {
  return phase == kOpenPhase || phase == kOpenAfterLoadPhase;
}

// The common part of the orders of all phases.
struct CompareLoad {
  std::string dir;  // of the store, or, in a configuration, the empty one that it is made below
  uint32_t thread_count = 64;
  // Of a whole dataset.
  uint64_t record_count = 0;
  uint32_t value_bytes = kValueBytes;
  uint64_t seed = 1;
  // Given to each store as its budget.
  uint64_t memory_budget_bytes = 0;
  // Keys of benchmarks are 0, 1, 2, ... instead of spread over all keys.
  bool dense_keys = false;
};

struct CompareOrder : CompareLoad {
  std::string store;
  std::string phase;
  uint32_t round = 0;
  uint32_t position = 0;  // of the store within the round, from 0 on
  uint32_t opening = 0;   // numbers the openings of a store in a round
  // The group that the process joins, its version and its cap; empty and 0: there is none.
  std::string cgroup;
  int cgroup_version = 0;
  uint64_t memory_cap_bytes = 0;
  // How many records of the dataset the store has: records 0 to written_count.
  uint64_t written_count = 0;
  // Whether the store's fill went to its end.
  bool has_all_records = true;
  // The phase's time limit.
  double phase_seconds = 0;
  // After so long the process ends, whether the store is closed or not.
  double process_seconds = 0;
};

struct CompareAnswer {
  // Empty when all went well.
  std::string error;
  // An element of "runs" as docs/bench.md has them; null without a store.
  nlohmann::json run;
  // As in CompareOrder, after the phase.
  uint64_t written_count = 0;
  bool has_all_records = true;
  // KvStore::Describe.
  nlohmann::json description;

  bool ok() const { return error.empty(); }
  // 0 without a run, and for a phase that failed.
  double OperationsPerSecond() const { return ok() ? Figure("operations_per_s").value_or(0) : 0; }
  // Numbers of the run; nothing where it has none.
  std::optional<double> Figure(const char* name) const {
    if (!run.is_object() || !run.contains(name) || !run[name].is_number()) return std::nullopt;
    return run[name].get<double>();
  }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareOrder, store, phase, round, position, opening, dir,
                                   cgroup, cgroup_version, memory_cap_bytes, thread_count,
                                   record_count, written_count, value_bytes, has_all_records, seed,
                                   phase_seconds, process_seconds, memory_budget_bytes, dense_keys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareAnswer, error, run, written_count, has_all_records,
                                   description)

// The stores of a round, by their number below `store_count`, in the order in which they run. Over
// `store_count` rounds every store is once at every position. As many rounds after them have the
// opposite orders.
inline std::vector<uint32_t> StoresInTurn(uint32_t round, uint32_t store_count) {
  std::vector<uint32_t> stores;
  stores.reserve(store_count);
  for (uint32_t i = 0; i < store_count; ++i) stores.push_back((round + i) % store_count);
  if (store_count > 0 && round / store_count % 2 == 1) std::reverse(stores.begin(), stores.end());
  return stores;
}

// The engine and the peers that this program was linked with.
std::vector<KvStoreKind> ComparedStores();

// Runs the order's phase in a process of its own and waits for it. A process that dies, or that
// does not end in time, gives an answer with an error.
CompareAnswer RunCompareProcess(const CompareOrder& order);

inline constexpr char kCompareWork[] = "compared-phase";
Status RunCompareWork(const nlohmann::json& order, nlohmann::json* answer);

// The contest's phases over any store: many threads write at random, read at random, and range over
// everything in order, twice. Each thread does at least one operation, however short the time.
//
// Every value that is read is checked.

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

#endif  // HARNESS_COMPARE_PROCESS_H_
