// A core shard: one thread with tables, frames and epochs of its own.
//
// It takes mails from its inbox, answers them from its own tables, and sleeps when there are none.
// It opens a table at the first get, and closes it when the routes give all its sub-tables to
// others. Several workers may have the same file open; each has the blocks of its own keys in its
// frames.
//
// Thread safety: inbox() from any thread; Create, Start and Join from the owner's; all other calls
// from the worker's own thread.
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

// The gets of a worker's sub-table since the last TakeHeat.
struct SubTableHeat {
  uint32_t id = 0;
  uint64_t get_count = 0;
  // A random sample of the keys of recent gets.
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

  // Starts the thread, pinned to `cpu` if the system permits it. kOutOfMemory.
  Status Start(int64_t cpu);
  // Waits for the thread, which ends after a mail of kStop, once it has answered all mails.
  void Join();

  // True between Start and Join.
  bool started() const { return thread_.joinable(); }
  ShardInbox& inbox() { return inbox_; }
  bool pinned() const { return pinned_.load(std::memory_order_relaxed); }
  uint64_t passed_on_count() const { return passed_on_.load(std::memory_order_relaxed); }

  // Answers gets of its own sub-tables, passes on the others, and counts the mail down.
  void Answer(Mail* mail) noexcept;
  // Answers mails until the ticket is ready; new work waits until later.
  void WaitFor(const Ticket& ticket) noexcept;
  // Returns the counts and resets them. May throw std::bad_alloc.
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
  // True when there was a mail.
  bool Serve() noexcept;
  bool Work() noexcept;
  // Takes over the current routes; false when memory is short.
  bool Refresh() noexcept;
  void TakeRoutes(std::shared_ptr<const Routes> current);
  // Splits a run by the present routes, which reorders its keys.
  void SortOut(const ShardRun& run, Ticket* ticket) noexcept;
  // False when the other worker's inbox is closed, or memory for the mail is short.
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

  // Used by the thread alone.
  alignas(64) std::shared_ptr<const Routes> routes_;
  std::vector<Heat> heats_;  // indexed like routes_->subs
  // Declared before the tables, whose destructors return their frames to the pool.
  EpochManager epochs_;
  std::unique_ptr<TableFrames> frames_;
  std::vector<std::unique_ptr<Table>> tables_;  // null: not open
  std::unique_ptr<ShardClient> client_;
  Mail* work_ = nullptr;  // waiting work, the oldest first
  Mail* last_work_ = nullptr;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_WORKER_H_
