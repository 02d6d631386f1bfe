// A core shard: one thread with tables, frames and epochs of its own.
//
// It takes what comes into its inbox, answers it from its own tables, and sleeps when there is
// nothing. Tables are opened when they are first asked for, and closed when the routes say that
// others have all of them; the same file may be open with several workers, each with the blocks of
// its own keys in its frames.
//
// Thread safety: inbox() from any thread; Create, Start and Join by who owns it; the rest by the
// worker's own thread.
#ifndef HARNESS_LAB_SHARD_WORKER_H_
#define HARNESS_LAB_SHARD_WORKER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "harness/lab/engine_names.h"
#include "harness/lab/shard_client.h"
#include "harness/lab/shard_mail.h"
#include "harness/lab/shard_routes.h"
#include "harness/lab/table.h"

namespace lab {

// How much a worker's sub-table was asked for since the last look.
struct SubTableHeat {
  uint32_t id = 0;
  uint64_t get_count = 0;
  // Keys that it was asked for lately, by chance.
  std::vector<std::string> samples;
};

struct ShardWorkerOptions {
  TableOptions table;
  uint32_t frame_count = 0;
};

class ShardWorker {
 public:
  static constexpr uint32_t kSamples = 32;
  static constexpr int64_t kAnyCpu = -1;

  // All of `workers` outlive the threads. kOutOfMemory.
  static Status Create(uint32_t number, const ShardWorkerOptions& options, RouteTable* routes,
                       std::span<const std::unique_ptr<ShardWorker>> workers,
                       std::unique_ptr<ShardWorker>* worker);
  ~ShardWorker();

  // On `cpu` alone if that is granted. kOutOfMemory.
  Status Start(int64_t cpu);
  // Waits for the thread, which ends when it has had a mail of kStop and answered everything.
  void Join();

  // Between Start and Join.
  bool started() const { return thread_.joinable(); }
  ShardInbox& inbox() { return inbox_; }
  bool pinned() const { return pinned_.load(std::memory_order_relaxed); }
  uint64_t passed_on_count() const { return passed_on_.load(std::memory_order_relaxed); }

  // Answers gets, or passes on what others have, and counts the mail down.
  void Answer(Mail* mail) noexcept;
  // Answers what comes in until the ticket is ready; new work waits until later.
  void WaitFor(const Ticket& ticket) noexcept;
  // And begins to count anew. std::bad_alloc.
  std::vector<SubTableHeat> TakeHeat();

 private:
  struct Heat {
    uint64_t get_count = 0;
    uint32_t sample_count = 0;
    std::unique_ptr<char[]> samples;  // a ring of kSamples keys; null until the first
  };

  ShardWorker(uint32_t number, const ShardWorkerOptions& options, RouteTable* routes,
              std::span<const std::unique_ptr<ShardWorker>> workers)
      : number_(number), options_(options), routes_table_(*routes), workers_(workers) {}

  void Main(int64_t cpu) noexcept;
  // True when there was something.
  bool Serve() noexcept;
  bool Work() noexcept;
  // To the current routes: false when there is no memory for it.
  bool Refresh() noexcept;
  void TakeRoutes(std::shared_ptr<const Routes> current);
  // Cuts a run by the present routes: its keys change places.
  void SortOut(const ShardRun& run, Ticket* ticket) noexcept;
  // False when the other one takes nothing any more, or there is no memory to tell it with.
  bool PassOn(uint32_t worker, const ShardRun& run, Ticket* ticket) noexcept;
  void AnswerRun(const ShardRun& run) noexcept;
  void Note(const ShardRun& run) noexcept;
  Status TableOf(uint32_t table, const Table** found) noexcept;

  const uint32_t number_;
  const ShardWorkerOptions options_;
  RouteTable& routes_table_;
  const std::span<const std::unique_ptr<ShardWorker>> workers_;
  ShardInbox inbox_;
  Ticket ticket_{&inbox_};
  std::atomic<bool> pinned_{false};
  std::atomic<uint64_t> passed_on_{0};  // written by the worker alone

  // The thread's own.
  alignas(64) std::shared_ptr<const Routes> routes_;
  std::vector<Heat> heats_;  // as routes_->subs
  // Before the tables, which give their frames back.
  EpochManager epochs_;
  std::unique_ptr<TableFrames> frames_;
  std::vector<std::unique_ptr<Table>> tables_;  // null: not open
  std::unique_ptr<ShardClient> client_;
  Mail* work_ = nullptr;  // that waits, the oldest first
  Mail* last_work_ = nullptr;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_WORKER_H_
