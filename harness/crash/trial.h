// The parent's side of the crash trial: it starts children, kills them and has the store verified.
//
// A cycle kills a writer, sometimes kills a few recoveries, and ends with a verification that is
// not killed. The next cycle uses the same store until it is old or large enough. The parent has
// one thread and never opens a store itself: so forking stays safe, and no kill can destroy its
// knowledge.
#ifndef HARNESS_CRASH_TRIAL_H_
#define HARNESS_CRASH_TRIAL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/crash/oracle.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

// The least size of a value that names key and version.
inline constexpr uint32_t kLeastValueBytes = 16;

// Makes the bytes of a version of a key. Words 0 and 1 name key and version. Every other word
// depends on key, version, its position and the store.
void MakeValue(const Oracle& oracle, uint32_t key_index, uint32_t version, std::string* value);

// The memory that a child shares with its parent, and the shape of the store.
struct Trial {
  const Shape& shape;
  Oracle& oracle;
  Report& report;
};

// Compares the store's answers with those that the oracle allows.
//
// Thread safety: every const call from any thread.
class Checker {
 public:
  // With `settled`, nobody writes any more: each version found is noted in the oracle, and later
  // checks must find the same.
  Checker(Store* store, const Trial& trial, bool settled)
      : store_(store),
        value_bytes_(trial.shape.geometry.value_bytes),
        oracle_(&trial.oracle),
        report_(&trial.report),
        settled_(settled) {}

  // Checks one Read of one key. `buffer` holds the value; callers reuse it between calls.
  void CheckRead(uint32_t key_index, std::string* buffer) const;

  // Checks one Range over the keys of ranks [first, last): order, phantoms and values, and that
  // keys which are not visited may be absent. With `open_bounds` the bounds are empty strings, and
  // the ranks must be all.
  void CheckRange(uint32_t first_rank, uint32_t last_rank, bool open_bounds) const;

 private:
  struct RangeState;
  void Visit(RangeState* state, std::string_view key, std::string_view value) const;
  void Judge(const char* call, uint32_t key_index, uint32_t floor, uint32_t version) const;
  void ParseAndJudge(const char* call, uint32_t key_index, uint32_t floor,
                     std::string_view value) const;

  Store* store_;
  uint32_t value_bytes_;
  Oracle* oracle_;
  Report* report_;
  bool settled_;
};

struct ChildPlan {
  std::string dir;
  Options options;
  uint64_t seed = 0;
  uint32_t writer_count = 1;
  uint32_t reader_count = 0;
  // Pause between two writes of a thread, 0 for none.
  uint32_t pace_us = 0;
  // Pause between two Syncs, 0 for none of them.
  uint32_t sync_pace_us = 0;
  // Read a key before the first write: the index is opened then, and its buckets are read beside
  // the writes.
  bool index_first = false;
  // The writer writes for this time before its first read, and as long again before it closes.
  uint32_t write_ms = 0;
  // The most records that the writers of this child write together; then they rest.
  uint64_t max_record_count = 0;
};

// The work of the child processes on the store, until they are killed. Each function runs in a
// forked child and returns its exit code: 0 when nothing was wrong, 1 when the report holds a
// violation.

// Opens, writes, reads beside the writes, closes.
int RunWriter(const ChildPlan& plan, const Trial& trial);
// Opens, compares every key by Read and by Range, closes.
int RunVerifier(const ChildPlan& plan, const Trial& trial);
// Opens a store that another process holds; the opening must be refused.
int RunSecondOpener(const ChildPlan& plan, const Trial& trial);

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
  uint32_t value_bytes = 0;  // 0: each store draws its own
  KeyChoice keys = KeyChoice::kBoth;
  GeometryChoice geometry = GeometryChoice::kMixed;
  IndexChoice index = IndexChoice::kMixed;
};

struct TrialSummary {
  uint32_t cycle_count = 0;
  uint32_t store_count = 0;
  // Kills of writers, by the phase in which the child was.
  std::array<uint32_t, kPhaseCount> writer_kill_counts = {};
  std::array<uint32_t, kPhaseCount> recovery_kill_counts = {};
  // Writers that had replaced the root of the index, and were killed before they closed the store.
  uint32_t killed_root_writer_count = 0;
  // Children that ended before their kill, or that were not to be killed.
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

  // Runs one cycle. False when it found a violation: the store is then kept, the report is printed
  // to stderr, and the trial is over.
  bool RunCycle(uint32_t cycle);
  // Removes the remaining stores, unless one is broken.
  void Finish();

  const TrialSummary& summary() const { return summary_; }

 private:
  using ChildMain = int (*)(const ChildPlan& plan, const Trial& trial);
  struct KillPlan {
    bool kill = false;
    Phase phase = Phase::kStart;  // the kill comes after the child reaches this phase...
    uint64_t delay_us = 0;        // ...by this delay
    bool second_opener = false;   // tried half-way through the delay
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
  // Does nothing when `first`, which has the store open, has ended already.
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
