// Parts of the bench about scans: seeks that pass what is not there, walks over a paged index, the
// cost of the board, short ranges.
//
// The stores have keys only, or a few values. Seeks and walks run on the caller's thread.
#ifndef HARNESS_CLAIMS_SCAN_SEEKS_H_
#define HARNESS_CLAIMS_SCAN_SEEKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/load/read_loops.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

// The shape of a comparison of scans.
struct ScanShape {
  std::string dir;  // new stores are made in here; the caller removes them
  uint64_t key_count = 0;
  uint32_t round_count = 1;
  double seconds = 1;  // of each timed run
  uint64_t seed = 1;
};

// Calls call(i) with i = 0, 1, ... for `seconds`, at least once. *us gets the time of a call.
template <typename Call>
Status TimeCalls(double seconds, const Call& call, double* us) {
  uint64_t count = 0;
  const uint64_t begin_ns = NowNs();
  do {
    ENGINE_RACE_RETURN_IF_ERROR(call(count++));
  } while (SecondsSince(begin_ns) < seconds);
  *us = SecondsSince(begin_ns) * 1e6 / static_cast<double>(count);
  return Status::Ok();
}

// Claims, and the figures of which others are the ratios.
inline constexpr char kSparseSeek[] = "seek over few keys, 1024 buckets, us";
inline constexpr char kSparseSeekWide[] = "seek over few keys, 65536 buckets, us";
inline constexpr char kSeekAfterDeletes[] = "seek_after_deletes_us";
inline constexpr char kPagedKeyWalk[] = "paged_key_walk_mkeys";

// Notes the time of a seek over few keys, in stores of 1024 and of 65536 buckets. Beside it, notes
// that of a range over all of them.
Status CompareSparseSeeks(const ScanShape& shape, ClaimRounds* rounds);
// Deletes the lower half of the keys. Notes the time of the first seek to the first key that is
// left, and that of seeks after many others.
Status SeekAfterDeletes(const ScanShape& shape, ClaimRounds* rounds);
// Walks over all keys by an iterator, forwards and backwards. The index has no memory. Notes
// millions of keys a second; the slower direction is the claim.
Status WalkPagedKeys(const ScanShape& shape, ClaimRounds* rounds);

// The cost of a load for the board of the shared pass, without its reads.
//
// The board is the engine's. Chunks have one buffer each, whose memory is never touched. Scans lie
// far apart, and each load needs a victim.

// The claim, in microseconds a load.
inline constexpr char kBoardCost[] = "board_cost_64k_us";

struct BoardCostShape {
  uint32_t chunk_count = 65536;
  uint32_t scan_count = 64;
  uint32_t load_count = 20000;  // of each timed run
  uint32_t round_count = 1;
};

// Notes the time of a load on a full board of `chunk_count` chunks. Beside it, notes those of a
// 64th of the chunks, and of one scan. kOutOfMemory: there is no address space for the chunks.
Status MeasureBoardCost(const BoardCostShape& shape, ClaimRounds* rounds);

// The cost of short ranges over many keys in memory: by a kept iterator, by a new iterator for each
// range, and by RocksDB.
//
// The store has keys only, and its index is in memory. Runs of a round have the same queries, and
// fail unless all find the same keys.

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

#endif  // HARNESS_CLAIMS_SCAN_SEEKS_H_
