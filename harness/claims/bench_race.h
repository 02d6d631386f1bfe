// The measured claims about the race: engine and device in turn, in short rounds.
//
// The disk has a burst allowance and neighbours, so nothing is compared with a figure from minutes
// ago: each comparison is a pair of runs next to each other, and a claim is the median of its
// rounds. A store is deleted as soon as it has been measured. One thread at a time.
#ifndef HARNESS_CLAIMS_BENCH_RACE_H_
#define HARNESS_CLAIMS_BENCH_RACE_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/claims/bench_race_cpu.h"
#include "harness/measure/claim_rounds.h"
#include "harness/race/dir.h"
#include "harness/race/phase.h"
#include "harness/race/runner.h"
#include "harness/system/fio_runner.h"

namespace harness {

std::vector<std::string> RaceClaimNames();

struct BenchConfig {
  RaceConfig race;
  uint32_t round_count = 3;
  uint64_t index_key_count = 64000000;
  // Directories, threads and seed are the race's.
  RaceCpuConfig cpu;
  // Names of claims.
  std::set<std::string> wanted;
  // A run that only shows that everything works: a figure that cannot be had is no error.
  bool is_smoke = false;
};

// Makes `dir` the place of a race, without an older one's store, and enough room for that of `race`
// and the files of fio beside it. An empty `where` is a fresh directory below the current one. The
// answer is empty, or what is wrong.
std::string PrepareRace(const std::string& where, RaceDir* dir, RaceConfig* race);

class BenchRace {
 public:
  // `dir` is prepared, and outlives this.
  BenchRace(const BenchConfig& config, RaceDir* dir);

  // Measures all that is wanted. False when a phase or a check failed, or a figure could not be
  // had: errors() says which. Calls `after_round` when there is something new to save.
  bool Run(const std::function<void()>& after_round);

  const std::vector<std::string>& errors() const { return errors_; }
  // Every figure, round by round, and the claims among them.
  const ClaimRounds& rounds() const { return rounds_; }
  // Claims, what they were taken from, settings and machine.
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  bool Wants(const char* part) const;
  void RunRound();

  // The parts of a round.
  void RaceBesideDevice();
  void CompareGroups();
  void CompareSequentialWrite();
  void CompareOneBucketRead();
  // The phases of one round together, over what the device would have taken for them.
  void NoteTotal(const std::vector<PhaseReport>& phases);
  // CPU times, which have rounds of their own.
  void MeasureCpu();
  // The figures of the program that measures the index, which has rounds of its own.
  void MeasureIndex();

  // One phase, noted among the raw figures; false when it failed.
  bool Measure(Phase phase, const RaceConfig& config, FioRunner* fio, const std::string& label,
               PhaseReport* report);
  // Writes a new store, and the bytes per second of that; 0 when it failed.
  double WriteStore(const RaceConfig& config, const std::string& label);
  // Writes a new store and reads it, cold; the bytes per second of the reading, 0 when it failed.
  double WriteAndReadStore(const RaceConfig& config, const std::string& label);
  // Notes a() / b(), run next to each other, in every other round b first.
  void NotePair(const char* claim, const std::function<double()>& a,
                const std::function<double()>& b);
  // What fio measured, for the description of the machine.
  void NoteDevice(const PhaseReport& report);
  void NoteFraction(const char* claim, const PhaseReport& report, double bytes_per_second);
  void Fail(const std::string& what) { errors_.push_back(what); }
  bool MustStop() const;

  const BenchConfig config_;
  RaceDir* dir_;
  bool has_fio_;
  uint32_t round_ = 0;
  // The claims, what they were made of, and what the device gave.
  ClaimRounds rounds_;
  nlohmann::json raw_ = nlohmann::json::array();
  nlohmann::json index_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_RACE_H_
