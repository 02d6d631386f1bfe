// The parent's side of the crash trial: it starts children, kills them and judges what is left.
//
// A cycle is: a writer, killed; now and then a few recoveries, killed as well; a verification that
// is left alone. The store goes on into the next cycle until it is old or large enough.
// Single-threaded, and it never opens a store itself: forking stays safe, and what it knows no kill
// can touch.
#ifndef HARNESS_CRASH_TRIAL_H_
#define HARNESS_CRASH_TRIAL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "harness/crash/child.h"
#include "harness/crash/oracle.h"
#include "harness/crash/shape.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

struct TrialConfig {
  // Stores are made in directories below it.
  std::string dir;
  uint64_t seed = 0;
  uint32_t cycle_count = 0;
  uint32_t thread_count = 0;
  uint32_t max_key_count = 0;
  uint32_t min_kill_ms = 0;
  uint32_t max_kill_ms = 0;
  uint64_t max_store_bytes = 0;
  KeyChoice keys = KeyChoice::kBoth;
  GeometryChoice geometry = GeometryChoice::kMixed;
};

struct TrialSummary {
  uint32_t cycle_count = 0;
  uint32_t store_count = 0;
  // By the phase that the child was in when it died.
  std::array<uint32_t, kPhaseCount> writer_kill_counts = {};
  std::array<uint32_t, kPhaseCount> recovery_kill_counts = {};
  // Children that ended by themselves before their kill came, or were to be left alone.
  uint32_t clean_exit_count = 0;
  uint32_t second_opener_count = 0;
  uint64_t acknowledged_count = 0;
  uint64_t checked_count = 0;
  uint32_t violation_count = 0;
  // Set once a store is broken.
  std::string broken_dir;
};

class CrashTrial {
 public:
  explicit CrashTrial(const TrialConfig& config);

  // One cycle. False when it found a violation: the store is then kept, the report printed to
  // stderr, and the trial is over.
  bool RunCycle(uint32_t cycle);
  // Removes what is left of the stores, unless one is broken.
  void Finish();

  const TrialSummary& summary() const { return summary_; }

 private:
  using ChildMain = int (*)(const ChildPlan& plan, const Trial& trial);
  struct KillPlan {
    bool kill = false;
    Phase phase = Phase::kStart;  // once the child is there...
    uint64_t delay_us = 0;        // ...and so much later
    bool second_opener = false;   // half-way through the delay
  };

  void StartStore();
  void RemoveStore();
  ChildPlan DrawPlan();
  KillPlan DrawWriterKill(ChildPlan* plan);
  KillPlan DrawRecoveryKill();
  void RunChild(const char* role, ChildMain child_main, const ChildPlan& plan, const KillPlan& kill,
                std::array<uint32_t, kPhaseCount>* kill_counts);
  pid_t Fork(ChildMain child_main, const ChildPlan& plan);
  bool AwaitPhase(pid_t pid, Phase phase, int* wait_status);
  // Unless `first`, which has the store open, is gone already.
  void TrySecondOpener(pid_t first);
  void PrintBroken(uint32_t cycle) const;

  TrialConfig config_;
  Rng rng_;
  Shape shape_;
  Oracle oracle_;
  Report report_;
  TrialSummary summary_;
  std::string store_dir_;
  uint32_t store_cycle_count_ = 0;
  std::string last_role_;
};

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_TRIAL_H_
