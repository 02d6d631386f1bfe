// The order that the process of one phase of a comparison gets, and its answer. Both travel as
// JSON.
//
// Pure functions.
#ifndef HARNESS_COMPARE_ORDER_H_
#define HARNESS_COMPARE_ORDER_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace harness {

// The name of the store that the others are compared with.
inline constexpr char kEngineName[] = "engine_race";

// The contest's phases, and the opening of a store with a cold page cache. Every other phase is
// named after the benchmark that it runs.
inline constexpr char kWritePhase[] = "write";
inline constexpr char kReadPhase[] = "read";
inline constexpr char kRangePhase[] = "range";
inline constexpr char kOpenPhase[] = "open";

struct CompareOrder {
  std::string store;
  std::string phase;
  uint32_t round = 0;
  std::string dir;     // of the store
  std::string cgroup;  // that the process joins; empty: none
  uint32_t thread_count = 64;
  // Records of a whole dataset, and how many of them the store has: records 0 to written_count.
  uint64_t record_count = 0;
  uint64_t written_count = 0;
  uint64_t seed = 1;
  // The phase's time limit.
  double phase_seconds = 0;
  // After so long the process ends, whether the store is closed or not.
  double process_seconds = 0;
  uint64_t memory_budget_bytes = 0;
  // Keys of benchmarks are 0, 1, 2, ... instead of spread over all keys.
  bool dense_keys = false;
};

struct CompareAnswer {
  // Empty when all went well.
  std::string error;
  // The store would not close: its process was ended, and it must not be opened again.
  bool stuck = false;
  // An element of "runs" as docs/bench.md has them; null without a store.
  nlohmann::json run;
  // The records that the store has, as in CompareOrder.
  uint64_t written_count = 0;
  // KvStore::Describe.
  nlohmann::json description;

  // 0 without a run.
  double OperationsPerSecond() const;
  // Numbers of the run; nothing where it has none.
  std::optional<double> Figure(const char* name) const;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareOrder, store, phase, round, dir, cgroup, thread_count,
                                   record_count, written_count, seed, phase_seconds,
                                   process_seconds, memory_budget_bytes, dense_keys)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompareAnswer, error, stuck, run, written_count, description)

// Nothing for a text that is something else.
std::optional<CompareOrder> ParseCompareOrder(const std::string& text);
std::optional<CompareAnswer> ParseCompareAnswer(const std::string& text);

}  // namespace harness

#endif  // HARNESS_COMPARE_ORDER_H_
