// Shared-nothing execution: each worker is pinned to a core and has tables, frames and epochs that
// no other worker touches. Start reading about the shards here.
//
// Each table has one worker. A worker's work sends gets in batches (ShardClient). The worker
// answers its own share at once, and other workers' gets while it waits for the rest.
//
// Workers share nothing else. They are threads of RunTimed, and sleep while they have nothing to
// do.
#ifndef HARNESS_LAB_CORE_SHARDS_H_
#define HARNESS_LAB_CORE_SHARDS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/lab/engine_names.h"
#include "harness/lab/table.h"
#include "harness/measure/timed.h"

namespace engine_race::lab {

// How gets reach a core shard, and how their sender learns that they are answered.
//
// A mail carries the part of one batch that is for one worker. One atomic operation puts it into
// the worker's inbox, and one more counts it down from the sender's ticket. Idle workers sleep.

class ShardClient;
class ShardInbox;

// The number of mails, or of other workers' ends, that one worker still waits for. A ticket lives
// as long as the shards: the thread that counts the last may touch it after the waiter has
// continued.
class alignas(64) Ticket {
 public:
  // `inbox` is that of the worker that will wait.
  explicit Ticket(ShardInbox* inbox) : inbox_(*inbox) {}

  // Called before the first of them, while nothing is pending.
  void Expect(uint32_t count) { pending_.store(count, std::memory_order_relaxed); }
  // From any thread. Release: the waiter sees all that was written before it.
  void Done();
  // Acquire: pairs with Done.
  bool ready() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  std::atomic<uint32_t> pending_{0};
  ShardInbox& inbox_;
};

// Gets of one table; their keys, payloads and statuses are arrays. Belongs to the thread that has
// the mail, until the mail is done.
struct ShardRun {
  uint32_t table = 0;
  uint32_t count = 0;
  char* keys = nullptr;
  char* payloads = nullptr;
  Status* statuses = nullptr;
  uint32_t* places = nullptr;  // indexes of the gets in the client's batch
};

struct alignas(64) Mail {
  Mail* next = nullptr;
  Ticket* ticket = nullptr;
  uint32_t worker = 0;
  ShardRun* runs = nullptr;
  uint32_t run_count = 0;
};

class ShardInbox {
 public:
  // From any thread.
  void Push(Mail* mail);
  // From any thread. Wakes the worker if it sleeps, so that it checks its condition again.
  void Nudge();

  // The calls below are for the worker alone.

  // Takes all mails, the oldest first; null when there are none.
  Mail* TakeAll();
  // Sleeps until a mail or a nudge comes. Does not sleep when `ready` returns true.
  template <typename ReadyFn>
  void Sleep(const ReadyFn& ready) {
    // Relaxed: if a waker has been faster than the next line, that one fails.
    const uint32_t seen = wakes_.load(std::memory_order_relaxed);
    if (!SayAsleep()) return;
    // Acquire: pairs with Wake.
    if (!ready()) wakes_.wait(seen, std::memory_order_acquire);
    SayAwake();
  }

 private:
  bool SayAsleep();
  void SayAwake();
  void Wake();

  // A sentinel: head_ points to it while the worker sleeps.
  Mail asleep_;
  alignas(64) std::atomic<Mail*> head_{nullptr};
  std::atomic<uint32_t> wakes_{0};
};

// Turns of a spinning wait, in which most answers arrive.
inline constexpr uint32_t kSpins = 200;
inline void SpinOnce() { __builtin_ia32_pause(); }

// One lookup. `key` and `payload` must live until it is answered.
struct ShardGet {
  uint32_t table = 0;
  const char* key = nullptr;
  char* payload = nullptr;  // written when status is Ok
  Status status;            // as of Table::Get
};

struct CoreShardsOptions {
  uint32_t worker_count = 1;
  // Frames of each worker. They take memory only as they are used.
  uint32_t frame_count = 0;
  // Everything must be reached by pointer: a worker has no block cache.
  TableOptions table;
  // Of every table.
  TableShape shape;
  int dir_fd = -1;
  std::vector<std::string> names;  // of the tables' files
  // The CPUs to pin workers to; empty: those that the process may use. Workers are not pinned when
  // they outnumber these: two would wait for each other while another CPU is idle.
  std::vector<uint32_t> cpus;
};

class ShardWorker;

// The gets of one worker. A batch costs one mail for each worker that has some of its keys.
class ShardClient {
 public:
  ShardClient(const CoreShardsOptions& options, ShardWorker* here,
              std::span<const std::unique_ptr<ShardWorker>> workers);
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;

  // Answers all gets, each with a status of its own. May throw std::bad_alloc.
  void Get(std::span<ShardGet> gets);

 private:
  // Makes the runs, their memory, and a mail for each worker.
  void LayOut(std::span<const ShardGet> gets);
  void HandOver();
  void GiveBack(std::span<ShardGet> gets);

  const TableShape shape_;
  ShardWorker& here_;
  const std::span<const std::unique_ptr<ShardWorker>> workers_;
  Ticket ticket_;

  // The present batch; the memory is reused by the next one.
  std::vector<uint32_t> counts_;   // of each table
  std::vector<ShardRun*> run_of_;  // likewise; null for none
  std::vector<ShardRun> runs_;
  std::vector<Mail> mails_;  // of each worker that has some
  std::vector<char> keys_;
  std::vector<char> payloads_;
  std::vector<Status> statuses_;
  std::vector<uint32_t> places_;
};

// The work of one worker in a run, on its own thread and with its own client. May throw
// std::bad_alloc.
using ShardWork =
    std::function<Status(uint32_t worker, ShardClient* client, harness::TimedThread* self)>;

// Not thread-safe.
class CoreShards {
 public:
  // Loads the tables, each by its worker. Table i is that of names[i].
  static Status Load(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards);
  ~CoreShards();

  // One run of RunTimed, on all workers at once; `self` has started. A worker whose work has ended
  // or failed answers the others until theirs has ended too.
  Status Run(double seconds, const ShardWork& work, harness::TimedPoint* point);

  uint32_t worker_count() const { return options_.worker_count; }
  uint32_t pinned_count() const;

 private:
  explicit CoreShards(const CoreShardsOptions& options);
  // Has the calling thread run on the worker's CPU.
  void Pin(uint32_t number);

  const CoreShardsOptions options_;
  const std::vector<uint32_t> cpus_;
  std::vector<std::unique_ptr<ShardWorker>> workers_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_CORE_SHARDS_H_
