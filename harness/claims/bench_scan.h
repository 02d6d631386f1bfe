// The measured claims about scans: short ranges by iterators, snapshots, and ranges over everything
// by many threads, on the disk and in memory. Further claims cover scans beside writers, and slow
// scans beside a fast one.
//
// Compared runs alternate in short rounds; a claim is the median of its rounds. Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_SCAN_H_
#define HARNESS_CLAIMS_BENCH_SCAN_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/load/scan_gap.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks_ranges.h"
#include "harness/race/dir.h"
#include "harness/race/phase.h"

namespace harness {

struct ScanBenchConfig {
  std::string tmpfs_dir;  // empty: the parts that need it fail
  uint64_t key_count = 20000000;
  uint32_t round_count = 9;
  double seconds = 1;  // of each timed run that has no end of its own
  uint64_t snapshot_count = 1000000;
  uint32_t snapshot_writer_count = 8;
  uint32_t writer_count = 4;
  uint64_t written_record_count = 400000;  // of a store on tmpfs that is written to
  uint64_t visited_record_count = 262144;  // of the store on tmpfs that is ranged over
  uint64_t checked_record_count = 524288;  // likewise, where values are checked
  uint32_t thread_count = 64;              // which range over these
  ScanGapShape gap;                        // its directory is set here
  RaceConfig race;                         // ranges on the disk
  uint32_t race_round_count = 5;
  uint64_t seed = 1;
  // The opponent; empty where there is none, and then that claim is not measured.
  MakeRocksFn make_rocks;
  // Names of claims.
  std::set<std::string> wanted;
  // A run that only shows that everything works: a figure that cannot be measured is no error.
  bool is_smoke = false;
};

// The space on tmpfs that the stores of the largest part take.
uint64_t ScanTmpfsBytes(const ScanBenchConfig& config);
std::vector<std::string> ScanClaimNames();

class BenchScan {
 public:
  // `dir` is prepared, and outlives this.
  BenchScan(const ScanBenchConfig& config, RaceDir* dir);

  // False when something failed; errors() says what. Calls `after_part` when there is something new
  // to save.
  bool Run(const std::function<void()>& after_part);

  const std::vector<std::string>& errors() const { return errors_; }
  // {"claims", "beside", "figures", "rounds", "config", "machine", ...}
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  bool Wants(const std::string& claim) const { return config_.wanted.contains(claim); }
  bool MustStop() const;

  void ShortRanges();
  void Snapshots();
  void Visits();
  void CheckedVisits();
  void WrittenRanges();
  void Gaps();
  void Writers();
  void RangesOnDisk();
  void RangeOnDisk(bool checks_values);
  // Measures the disk, once, for the report.
  void DeviceRates();
  RaceConfig CheckedRace() const;
  void Fail(const std::string& what) { errors_.push_back(what); }

  const ScanBenchConfig config_;
  RaceDir* dir_;
  ClaimRounds rounds_;
  nlohmann::json rocks_;
  nlohmann::json race_;
  nlohmann::json visit_floor_;
  nlohmann::json device_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_SCAN_H_
