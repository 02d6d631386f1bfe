#include "harness/claims/index_reopen.h"

#include <string>
#include <vector>

#include "harness/claims/index_child.h"
#include "harness/claims/index_files.h"
#include "harness/claims/index_load.h"
#include "harness/data/mix.h"
#include "harness/load/fill_keys.h"
#include "harness/load/index_keys.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::Status;

// The records written before a kill that are read again.
constexpr uint64_t kKilledReads = 16;

// A filled store that was closed cleanly before each call.
class ReopenedStore {
 public:
  ReopenedStore(const IndexBenchConfig& config, const std::string& dir, uint64_t key_count)
      : config_(config), dir_(dir), keys_(FilledStoreOptions(config), key_count, config.seed) {}

  Status Fill() {
    ENGINE_RACE_RETURN_IF_ERROR(
        FillKeyLogs(FilledStoreOptions(config_), dir_, keys_.key_count(), config_.seed));
    double unused = 0;
    return Reopen(&unused);
  }

  Status Reopen(double* seconds) {
    OpenOrder order{dir_};
    order.first_key = keys_.PresentKey(Mix64(++open_count_));
    OpenAnswer answer;
    ENGINE_RACE_RETURN_IF_ERROR(OpenInChild(order, &answer));
    *seconds = answer.seconds;
    return Status::Ok();
  }

  Status Build(double* seconds) {
    RemoveIndexRoot(dir_);
    return Reopen(seconds);
  }

  // Reopens after a writer was killed.
  Status ReopenAfterKill(double* seconds) {
    KillOrder killed{dir_, config_.bucket_count, keys_.key_count(), config_.seed};
    killed.write_count = config_.killed_write_count;
    killed.first_new = new_key_count_;
    killed.writer_count = config_.writer_count;
    ENGINE_RACE_RETURN_IF_ERROR(KillInChild(killed));
    OpenOrder order{dir_};
    order.first_key = keys_.PresentKey(Mix64(++open_count_));
    IndexLoad load;
    load.write_count = killed.write_count;
    const uint64_t added = load.new_key_count();
    for (uint64_t i = 0; i < kKilledReads; ++i) {
      order.more_keys.push_back(keys_.New(new_key_count_ + added * i / kKilledReads));
    }
    new_key_count_ += added;
    OpenAnswer answer;
    ENGINE_RACE_RETURN_IF_ERROR(OpenInChild(order, &answer));
    *seconds = answer.seconds;
    return Status::Ok();
  }

  uint64_t key_count() const { return keys_.key_count() + new_key_count_; }

 private:
  const IndexBenchConfig& config_;
  const std::string dir_;
  const IndexKeys keys_;
  uint64_t open_count_ = 0;
  uint64_t new_key_count_ = 0;
};

}  // namespace

Status MeasureReopening(const IndexBenchRun& run) {
  ReopenedStore store(run.config, run.store_dir(), run.config.key_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  run.rounds->Note("closed store: index_disk_bytes_per_key",
                   static_cast<double>(IndexDiskBytes(run.store_dir())) /
                       static_cast<double>(store.key_count()));
  double build = 0;
  double reopen = 0;
  double after_kill = 0;
  std::vector<Turn> turns = {[&] { return store.Build(&build); },
                             [&] { return store.Reopen(&reopen); }};
  if (run.Wants(kReopenAfterKill)) {
    turns.push_back([&] { return store.ReopenAfterKill(&after_kill); });
  }
  return AlternatingRounds(run.config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("build_s", build);
    run.rounds->Note("reopen_s", reopen);
    run.rounds->NoteRatio(kReopen, reopen, build);
    if (!run.Wants(kReopenAfterKill)) return;
    run.rounds->Note("reopen_after_kill_s", after_kill);
    run.rounds->NoteRatio(kReopenAfterKill, after_kill, build);
  });
}

Status MeasureReopenGrowth(const IndexBenchRun& run) {
  ReopenedStore small(run.config, run.store_dir() + "-small", run.config.small_key_count);
  ReopenedStore large(run.config, run.store_dir(), run.config.large_key_count);
  ENGINE_RACE_RETURN_IF_ERROR(small.Fill());
  ENGINE_RACE_RETURN_IF_ERROR(large.Fill());
  double small_seconds = 0;
  double large_seconds = 0;
  const std::vector<Turn> turns = {[&] { return small.Reopen(&small_seconds); },
                                   [&] { return large.Reopen(&large_seconds); }};
  return AlternatingRounds(run.config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("reopen_s, fewer keys", small_seconds);
    run.rounds->Note("reopen_s, more keys", large_seconds);
    run.rounds->NoteRatio(kReopenGrowth, large_seconds, small_seconds);
  });
}

}  // namespace harness
