// Shared-nothing execution: each worker thread is pinned to a core and has tables, frames and
// epochs that no other thread touches. Start reading about the shards here.
//
// Each table has one worker. A worker's work sends gets in batches (ShardClient). The worker
// answers its own share at once, and other workers' gets while it waits for the rest.
//
// Workers share nothing else. They sleep when they have nothing to do.
#ifndef HARNESS_LAB_CORE_SHARDS_H_
#define HARNESS_LAB_CORE_SHARDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/lab/engine_names.h"
#include "harness/lab/shard_mail.h"
#include "harness/lab/table.h"

namespace engine_race::lab {

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

// Start and the destructor: one thread. Run: any thread, one at a time for each worker.
class CoreShards {
 public:
  // Starts the workers, each of which loads its tables. Table i is that of names[i].
  static Status Start(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards);
  ~CoreShards();

  // Runs `work` on a worker's thread, with that worker's client, and waits for it. kOutOfMemory
  // when `work` throws std::bad_alloc, the only exception that it may throw.
  Status Run(uint32_t worker, const std::function<Status(ShardClient&)>& work);

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint32_t pinned_count() const;

 private:
  explicit CoreShards(const CoreShardsOptions& options);

  const CoreShardsOptions options_;
  std::vector<std::unique_ptr<ShardWorker>> workers_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_CORE_SHARDS_H_
