// The cost of short ranges over many keys in memory: by a kept iterator, by a new iterator for each
// range, and by RocksDB.
//
// The store has keys only, and its index is in memory. Runs alternate in short rounds, and every
// other round reverses their order. The bench fails unless all runs find the same keys. Not
// thread-safe.
#ifndef HARNESS_CLAIMS_SCAN_RANGES_H_
#define HARNESS_CLAIMS_SCAN_RANGES_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/load/short_ranges.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks.h"

namespace harness {

inline constexpr char kRangesGain[] = "select_random_ranges_gain";
inline constexpr char kSetup[] = "iterator_setup_ns";
inline constexpr char kVsRocks[] = "vs_rocksdb_ranges";
inline constexpr char kRefresh[] = "refresh_unchanged_ns";

struct ScanRangesShape {
  std::string dir;  // new ones are made in here
  uint64_t key_count = 0;
  uint32_t round_count = 1;
  double seconds = 1;  // of each run
  uint64_t seed = 1;
};

class ScanRanges {
 public:
  // `rounds` outlives this.
  ScanRanges(const ScanRangesShape& shape, ClaimRounds* rounds) : shape_(shape), rounds_(*rounds) {}
  ~ScanRanges();

  // Fills the store; must come first.
  engine_race::Status Prepare();
  // Compares a kept iterator with a new one for each range, first with the cache of iterators off,
  // then on. Also measures single calls that set up or refresh an iterator.
  engine_race::Status CompareIterators();
  // Compares a kept iterator with RocksDB's.
  engine_race::Status CompareRocks(const MakeRocksFn& make);
  // The settings of RocksDB; null before CompareRocks.
  const nlohmann::json& rocks() const { return rocks_; }

  // Reopens the store and builds its index.
  engine_race::Status Open(bool cache_iterators);
  // One run over the open store without a comparison, by a kept iterator or by one for each range.
  engine_race::Status Repeat(bool kept) { return kept ? Kept("kept") : OneForEach("each"); }

 private:
  std::string store_dir() const { return shape_.dir + "/keys-store"; }
  std::string rocks_dir() const { return shape_.dir + "/rocksdb"; }
  std::vector<uint64_t> AllKeys() const;
  engine_race::Status Rounds(const std::vector<Turn>& runs);

  // Runs queries for one round and notes the nanoseconds a range under `name`. `answer` answers one
  // query.
  template <typename Answer>
  engine_race::Status Queries(const std::string& name, const Answer& answer);
  engine_race::Status Kept(const std::string& name);
  engine_race::Status OneForEach(const std::string& name);
  engine_race::Status KeptAtLatest(const std::string& name);
  engine_race::Status Noted(const std::string& name, const QueryRun& run,
                            const engine_race::Status& status);
  // Notes the nanoseconds of a single call under `name`.
  template <typename Call>
  engine_race::Status NsNoted(const std::string& name, const Call& call);
  engine_race::Status SetUp(const std::string& name);
  engine_race::Status RefreshToLatest(const std::string& name);
  engine_race::Status RefreshToSnapshot(const std::string& name);

  uint64_t round_seed() const { return shape_.seed + round_; }

  const ScanRangesShape shape_;
  ClaimRounds& rounds_;
  nlohmann::json rocks_;
  std::unique_ptr<engine_race::Store> store_;
  engine_race::Iterator kept_;
  uint32_t round_ = 0;
  // The sum of the round's first run, which the other runs must find too.
  uint64_t key_sum_ = 0;
  bool has_key_sum_ = false;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_SCAN_RANGES_H_
