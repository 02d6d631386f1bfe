// The measured claims about the race: engine and device in turn, in short rounds.
//
// The disk has a burst allowance and neighbours, so figures that are minutes apart are not
// compared. Each comparison is a pair of runs that follow each other, and a claim is the median of
// its rounds. A store is deleted as soon as it has been measured.
//
// Not thread-safe.
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
  // Directories, threads and seed are taken from `race`.
  RaceCpuConfig cpu;
  // Names of claims.
  std::set<std::string> wanted;
  // A run that only shows that everything works: a figure that cannot be measured is no error.
  bool is_smoke = false;
};

// Prepares `dir` at `where` for a race: removes an older race's store and checks the free space.
// The new store and fio's files need the same number of bytes each. An empty `where` makes a fresh
// directory below the current one. Returns what is wrong, or nothing.
std::string PrepareRace(const std::string& where, RaceDir* dir, RaceConfig* race);

class BenchRace {
 public:
  // `dir` is prepared, and outlives this.
  BenchRace(const BenchConfig& config, RaceDir* dir);

  // Measures the wanted claims. False when a phase or a check failed or a figure could not be
  // measured: errors() says which. Calls `after_round` when there is something new to save.
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
  // Notes the time of one round's phases over the time that the device would need for them.
  void NoteTotal(const std::vector<PhaseReport>& phases);
  // Measures CPU times, in rounds of their own.
  void MeasureCpu();
  // Takes over the figures of the program that measures the index in rounds of its own.
  void MeasureIndex();

  // One phase, noted among the raw figures; false when it failed.
  bool Measure(Phase phase, const RaceConfig& config, FioRunner* fio, const std::string& label,
               PhaseReport* report);
  // Writes a new store. Returns bytes per second, 0 after a failure.
  double WriteStore(const RaceConfig& config, const std::string& label);
  // Writes a new store and reads it, cold. Returns the reading's bytes per second, 0 after a
  // failure.
  double WriteAndReadStore(const RaceConfig& config, const std::string& label);
  // Runs a() and b(), in every other round b first, and notes their ratio a / b.
  void NotePair(const char* claim, const std::function<double()>& a,
                const std::function<double()>& b);
  // Keeps fio's figures for the description of the machine.
  void NoteDevice(const PhaseReport& report);
  void NoteFraction(const char* claim, const PhaseReport& report, double bytes_per_second);
  void Fail(const std::string& what) { errors_.push_back(what); }
  bool MustStop() const;

  const BenchConfig config_;
  RaceDir* dir_;
  bool has_fio_;
  uint32_t round_ = 0;
  // The claims, the figures that they are made of, and the rates of the device.
  ClaimRounds rounds_;
  nlohmann::json raw_ = nlohmann::json::array();
  nlohmann::json index_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_RACE_H_
