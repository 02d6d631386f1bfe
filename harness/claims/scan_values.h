// The cost of scans that take values: short ranges and iterators, first records, whole walks, and
// reads at a snapshot.
//
// Every scan checks its keys and both ends of each value. Not thread-safe; scans run on the
// caller's thread.
#ifndef HARNESS_CLAIMS_SCAN_VALUES_H_
#define HARNESS_CLAIMS_SCAN_VALUES_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/claims/scan_seeks.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks.h"

namespace engine_race::harness {

// Claims, and the figures of which others are the ratios.
inline constexpr char kShortRange[] = "short range, values, ranges a second";
inline constexpr char kShortRangeRocks[] = "short range, values, RocksDB, ranges a second";
inline constexpr char kShortWalk[] = "short iterator, values, ranges a second";
inline constexpr char kShortWalkRocks[] = "short iterator, values, RocksDB, ranges a second";
inline constexpr char kColdRange[] = "short range, cold, ranges a second";
inline constexpr char kColdRangeRocks[] = "short range, cold, RocksDB, ranges a second";
inline constexpr char kFirstCold[] = "first_record_us_cold";
inline constexpr char kFirstWarm[] = "first_record_us_warm";
inline constexpr char kPrefetchDefault[] = "prefetch_default_vs_best";
inline constexpr char kLiveScan[] = "range over everything, live, MB/s";
inline constexpr char kSnapshotScan[] = "range over everything, at a snapshot, MB/s";
inline constexpr char kIteratorWalk[] = "iterator over everything, MB/s";
inline constexpr char kFirstWalk[] = "iterator over a table that fits into memory, cold, MB/s";
inline constexpr char kSecondWalk[] = "iterator over a table that fits into memory, again, MB/s";
inline constexpr char kLiveHotReads[] = "hot reads, live, a second";
inline constexpr char kSnapshotHotReads[] = "hot reads, at a snapshot, a second";

class ScanValues {
 public:
  // `options` are the store's; where two are compared, either side has its memory budget. `rounds`
  // outlives this.
  ScanValues(const ScanShape& shape, const Options& options, ClaimRounds* rounds);

  // Writes the store and closes it; must come first.
  Status Prepare();

  // Short ranges beside RocksDB, with all values in memory, and from the device. RocksDB keeps its
  // values in blob files; with values in its tables there are figures besides. *settings gets the
  // settings of both.
  Status CompareWarm(const MakeRocksRecordsFn& make, nlohmann::json* settings);
  Status CompareCold(const MakeRocksRecordsFn& make, nlohmann::json* settings);
  // The time until an open range has its first record.
  Status FirstRecords(bool warm);
  // Iterators that take few or many records, by how many values are read at once.
  Status Prefetches();
  // Whole walks: live, at a snapshot, by an iterator.
  Status WholeWalks();
  // Walks twice by an iterator. Then reads a few keys, live or at a snapshot; each kind warms an
  // opening of its own.
  Status InMemory(uint64_t key_count);

 private:
  struct Opponents {
    std::unique_ptr<RocksRecords> blobs;
    std::unique_ptr<RocksRecords> tables;
  };

  // Opens the store and has its index built. Nothing of its files is in the page cache.
  Status Open();
  // Reads every record by its key a few times.
  Status WarmFrames();
  Status MakeOpponents(const MakeRocksRecordsFn& make, bool warm, Opponents* made,
                       nlohmann::json* settings);
  uint64_t DrawPlace(uint64_t length);
  // Calls walk(place) with random places, as long as a run takes, and notes the walks of a second.
  template <typename Walk>
  Status Walks(const std::string& name, uint64_t length, const Walk& walk);
  // Such walks over short ranges, each at the latest state.
  Status OurRanges(const char* name);
  Status TheirRanges(const char* name, RocksRecords* records);
  Status RangeOnce(uint64_t place);
  Status IterateOnce(Iterator* iterator, uint64_t place, uint64_t length) const;
  Status CursorOnce(KvCursor* cursor, uint64_t place) const;
  Status FirstRecord(double* us);
  // One iterator for all walks, or one for each.
  Status Prefetch(const std::string& how, uint32_t prefetch_records, uint64_t length, bool keeps);
  Status IsRight(uint64_t place, std::string_view key, std::string_view value) const;
  Status RepeatedWalks();
  Status HotReads(uint64_t key_count);
  Status WalkIterator(const VisitFn& visit);
  // Walks the open store once, and notes its MB/s as `name`.
  template <typename Walk>
  Status Whole(const char* name, const Walk& walk);

  const ScanShape shape_;
  ClaimRounds& rounds_;
  const StoreShape store_shape_;
  const Options options_;
  const ValueMaker values_;
  std::vector<uint64_t> keys_;  // in order
  std::unique_ptr<Store> store_;
  uint64_t drawn_ = 0;
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SCAN_VALUES_H_
