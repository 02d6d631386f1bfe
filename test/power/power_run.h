// One random life of a store on a disk that loses power, and what is checked after every loss.
//
// A run is a tree. A store is created and used. At random moments, from within its system calls
// too, states are taken that a loss of power could leave. Each state is opened under another boot
// id, or by a machine that runs on and has mounted the file system again. The state is judged
// against the history, used further, and loses power in its turn.
//
// One thread makes a run; threads of its own write in some. A run with one thread is the same every
// time for a seed, apart from what the engine's own threads do.
#ifndef TEST_POWER_POWER_RUN_H_
#define TEST_POWER_POWER_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/power/power_disk.h"
#include "test/power/power_phase.h"
#include "test/power/state_directory.h"
#include "test/power/write_history.h"

namespace engine_race::test {

// Counts of the cases that runs met, added up over processes. A test that never saw these proves
// little.
struct PowerTally {
  uint64_t states = 0;
  uint64_t lossy_states = 0;      // some unsynced write was lost
  uint64_t whole_states = 0;      // unsynced writes, none of them lost
  uint64_t striped_states = 0;    // of a store over two paths or three
  uint64_t recovery_states = 0;   // power lost in the middle of an opening after a loss
  uint64_t remounted_states = 0;  // opened in the same boot of the machine
  uint64_t creation_states = 0;   // and in the middle of a creation
  uint64_t durable_writes = 0;    // acknowledged in a sync mode
  uint64_t lost_writes = 0;
  uint64_t failed_flushes = 0;
  uint64_t batches = 0;
  uint64_t row_states = 0;     // of a store that may have used slots again
  uint64_t moved_records = 0;  // by reclaim
  uint64_t freed_records = 0;
  uint64_t compacting_states = 0;  // power lost in the middle of Compact
  uint64_t run_number = 0;         // of the run that is under way
};

class PowerRun {
 public:
  static constexpr uint64_t kStatesPerRun = 10;
  static constexpr uint64_t kMaxBatchWrites = 300;

  PowerRun(uint64_t seed, Life life, PowerTally* tally);
  ~PowerRun();

  // Makes and judges at most kStatesPerRun states. False with *complaint when one is wrong.
  bool Run(std::string* complaint);

 private:
  struct State {
    std::string dir;
    std::string event;  // when it was taken
    // Of the machine that lost it; empty for a new one.
    std::string boot_id_path;
    uint64_t mount_number = 0;
    std::shared_ptr<WriteHistory> history;
    LossBounds bounds;
    uint32_t losses = 0;
    // The opening trusts no counts, so all that it finds is synced.
    bool is_verified = true;
  };

  bool Live(State state);
  void TakeStates(PowerDisk* disk, const PowerPhase& phase, uint32_t losses);
  void OnEvent(PowerDisk* disk, const std::string& event, uint32_t losses);
  void TakeState(PowerDisk* disk, const std::string& event, uint32_t losses);
  bool Open(const std::string& dir, const Options& options);
  bool OpenState(const State& state, const Options& options);
  bool JudgeState(const State& state, std::shared_ptr<WriteHistory>* next);
  bool ReadAll(Contents* contents);
  bool Use(const std::string& dir, const PowerPhase& phase, const Options& options,
           PowerDisk* disk);
  bool ExpectedFailure(const Status& status);
  bool ReopenAfterFailure(const std::string& dir, const Options& options);
  bool Step(const PowerPhase& phase, uint32_t thread, Random* random, PowerDisk* disk);
  bool WriteOne(const PowerPhase& phase, uint32_t thread, Random* random);
  bool WriteMany(const PowerPhase& phase, uint32_t thread, Random* random);
  uint64_t DrawKey(const PowerPhase& phase, uint32_t thread, uint32_t bucket, Random* random) const;
  uint64_t DrawVersion(const PowerPhase& phase, Random* random);
  bool Fits(const PowerPhase& phase, uint32_t bucket, uint64_t count) const;
  bool CompactOne();
  void TallyReclaim();
  bool SyncOne();
  bool ReadOne(const PowerPhase& phase, Random* random);
  bool CheckWhole(const char* when);
  bool CloseAndVerify(const std::string& dir, const Options& options);
  bool Verify(const std::string& dir, uint64_t* record_count);
  // With the store's paths, if it has any, in the directory that it lies in now.
  Options PathsIn(const std::string& dir, Options options) const;
  bool Fail(const std::string& what);

  const uint64_t seed_;
  const Life life_;
  PowerTally* const tally_;
  Random random_;
  StateDirectory states_;

  Options geometry_;
  uint32_t path_count_ = 0;
  LaneNames names_;
  // Under mutex_ while threads write.
  uint64_t next_version_ = 1;
  uint64_t next_batch_ = 1;

  std::unique_ptr<Store> store_;
  std::atomic<bool> flushes_may_fail_{false};
  std::atomic<bool> flush_has_failed_{false};
  // Of files that nothing acknowledged is in.
  std::atomic<bool> harmless_flush_failed_{false};
  SyncMode sync_mode_ = SyncMode::kNone;

  std::mutex mutex_;  // of what follows, and of taking states
  std::shared_ptr<WriteHistory> history_;
  LossBounds fixed_bounds_;  // of a history that nothing is added to yet
  bool bounds_are_fixed_ = false;
  Random take_random_;
  bool take_in_opening_ = false;
  bool take_in_compact_ = false;
  uint32_t compacting_count_ = 0;  // threads
  uint64_t events_to_next_ = 0;
  uint64_t mean_gap_ = 0;
  uint64_t states_to_take_ = 0;
  uint64_t states_made_ = 0;
  std::vector<State> waiting_;
  std::string complaint_;
};

}  // namespace engine_race::test

#endif  // TEST_POWER_POWER_RUN_H_
