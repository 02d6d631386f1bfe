// Shared-nothing execution: each worker is pinned to a core and has tables, frames and epochs that
// no other worker touches. Start reading about the shards here.
//
// Each table has one worker. A worker's work sends gets in batches (ShardWorker::Get). The worker
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

#include "harness/lab/block_shape.h"
#include "harness/lab/table.h"
#include "harness/measure/timed.h"

namespace engine_race::lab {

class ShardWorker;

// Gets of one table; their keys, payloads and statuses are arrays.
struct ShardRun {
  uint32_t table = 0;
  uint32_t count = 0;
  char* keys = nullptr;
  char* payloads = nullptr;
  Status* statuses = nullptr;
  uint32_t* places = nullptr;  // indexes of the gets in the sender's batch
};

// From one worker to another. Gets come back to their sender as their answer. An end says that the
// sender's work is done. Belongs to the thread that has it.
struct alignas(64) Mail {
  enum class Kind : uint8_t { kGets, kAnswer, kEnd };

  Kind kind = Kind::kGets;
  Mail* next = nullptr;
  ShardWorker* sender = nullptr;
  ShardWorker* receiver = nullptr;
  std::span<const ShardRun> runs;
};

// The mails to one worker. Each costs its sender one atomic operation.
class ShardInbox {
 public:
  // From any thread. Wakes the worker if it sleeps.
  void Push(Mail* mail);
  // For the worker alone. Takes all mails, the oldest first; null when there are none. With
  // `sleeps` it waits for the first one.
  Mail* TakeAll(bool sleeps = false);

 private:
  alignas(64) std::atomic<Mail*> newest_{nullptr};
};

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

// A core shard: tables, frames and epochs for one thread. All calls are for that thread of a run.
class ShardWorker {
 public:
  using Team = std::span<const std::unique_ptr<ShardWorker>>;

  // `options` and `team`, all workers, outlive this.
  ShardWorker(uint32_t number, const CoreShardsOptions& options, Team team);

  // Answers all gets, each with a status of its own. A batch costs one mail for each worker that
  // has some of its keys. May throw std::bad_alloc.
  void Get(std::span<ShardGet> gets);

 private:
  friend class CoreShards;

  Status LoadTables();
  // Tells the others that the work is done, and answers them until theirs is, too.
  void End();
  // Makes the runs of a batch, their memory, and a mail for each worker.
  void LayOut(std::span<const ShardGet> gets);
  void GiveBack(std::span<ShardGet> gets);
  // Answers gets of its own tables.
  void Answer(const Mail& mail);
  // Takes mails until `count`, which mails count down, is 0.
  void Serve(const uint32_t& count);
  void Take(Mail* mail);

  const uint32_t number_;
  const CoreShardsOptions& options_;
  const Team team_;
  ShardInbox inbox_;
  bool is_pinned_ = false;
  uint32_t unanswered_count_ = 0;  // mails of the present batch
  uint32_t at_work_count_ = 0;     // other workers
  std::vector<Mail> ends_;
  // Declared before the tables, whose destructors return their frames to the pool.
  std::unique_ptr<TableFrames> frames_;
  std::vector<std::unique_ptr<Table>> tables_;  // null: another worker's

  // The present batch; the memory is reused by the next one.
  std::vector<uint32_t> counts_;   // of each table
  std::vector<ShardRun*> run_of_;  // likewise; null for none
  std::vector<ShardRun> runs_;
  std::vector<Mail> mails_;  // to each worker that has some
  std::vector<char> keys_;
  std::vector<char> payloads_;
  std::vector<Status> statuses_;
  std::vector<uint32_t> places_;
};

// The work of one worker in a run, on its own thread. May throw std::bad_alloc.
using ShardWork =
    std::function<Status(uint32_t number, ShardWorker* worker, harness::TimedThread* self)>;

// Not thread-safe.
class CoreShards {
 public:
  // Loads the tables, each by its worker. Table i is that of names[i].
  static Status Load(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards);

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
