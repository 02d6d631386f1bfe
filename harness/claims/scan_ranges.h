// The cost of short ranges over many keys in memory: by a kept iterator, by a new iterator for each
// range, and by RocksDB.
//
// The store has keys only, and its index is in memory. Runs of a round have the same queries, and
// fail unless all find the same keys.
#ifndef HARNESS_CLAIMS_SCAN_RANGES_H_
#define HARNESS_CLAIMS_SCAN_RANGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/claims/scan_seeks.h"
#include "harness/load/read_loops.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks.h"

namespace engine_race::harness {

// Claims, and the figures of which others are the ratios.
inline constexpr char kSetup[] = "iterator_setup_ns";
inline constexpr char kRefresh[] = "refresh_unchanged_ns";
inline constexpr char kKeptRange[] = "range, kept iterator, ns";
inline constexpr char kEachRange[] = "range, iterator for each, cache off, ns";
inline constexpr char kLatestRange[] = "range, kept iterator at the latest, ns";
inline constexpr char kRocksRange[] = "range, RocksDB, ns";

class ScanRanges {
 public:
  // `rounds` outlives this.
  ScanRanges(const ScanShape& shape, ClaimRounds* rounds) : shape_(shape), rounds_(*rounds) {}

  // Fills the store; must come first.
  Status Prepare();
  // Compares a kept iterator with a new one for each range, first with the cache of iterators off,
  // then on. Also measures single calls that set up or refresh an iterator.
  Status CompareIterators();
  // Compares a kept iterator with RocksDB's. *settings gets those of RocksDB.
  Status CompareRocks(const MakeRocksFn& make, nlohmann::json* settings);

  // Reopens the store and builds its index.
  Status Open(bool cache_iterators);
  // Runs over the open store by an iterator that is kept, or by one for each range. A kept one is
  // refreshed to each query's snapshot or to the latest state. Both note the nanoseconds of a
  // range.
  Status Kept(const std::string& name, bool at_snapshots = true);
  Status OneForEach(const std::string& name);

 private:
  // Runs `answer` for one round, which gives the sum of a query's keys.
  template <typename Answer>
  Status Queries(const std::string& name, const Answer& answer);
  // The seed of this run's queries: that of the other runs of its round.
  uint64_t NextSeed(const std::string& name) { return shape_.seed + run_counts_[name]++; }
  Status Noted(const std::string& name, uint64_t seed, const QueryRun& run);
  // Makes calls for half of a run and notes the nanoseconds of one.
  template <typename Call>
  Status Calls(const std::string& name, const Call& call, double* ns);
  Status SetUp(const std::string& name);
  // To the latest state, and to the same snapshot; the slower one is the claim.
  Status Refresh();

  const ScanShape shape_;
  ClaimRounds& rounds_;
  std::unique_ptr<Store> store_;
  Iterator kept_;
  std::map<std::string, uint64_t> run_counts_;
  std::map<uint64_t, uint64_t> key_sums_;  // by seed
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SCAN_RANGES_H_
