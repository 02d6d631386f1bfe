// Shared-nothing execution: each worker thread is pinned to a core and has tables, frames and
// epochs that no other thread touches. Start reading about the shards here.
//
// Clients send requests in batches and get the answers in batches (ShardClient). A worker can be a
// client too (Run): it answers its own share at once, and other clients' requests while it waits
// for the rest.
//
// Tables are split among the workers, whole or by ranges of keys ("sub-tables"). A routing table,
// which is replaced as a whole, has the worker of each sub-table. A hot sub-table can be moved to
// another worker, or split in two, while requests are running. A worker that gets a request for a
// sub-table that it no longer has passes it on.
//
// Foreground threads share nothing else. Workers sleep when they have nothing to do.
//
// Thread-safe, except where a comment says otherwise.
#ifndef HARNESS_LAB_CORE_SHARDS_H_
#define HARNESS_LAB_CORE_SHARDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/lab/engine_names.h"
#include "harness/lab/shard_client.h"
#include "harness/lab/shard_routes.h"
#include "harness/lab/shard_worker.h"

namespace lab {

inline constexpr uint32_t kMaxShardCount = 1024;
// The most sub-tables of one table.
inline constexpr uint32_t kMaxSubTables = 4096;

struct CoreShardsOptions {
  uint32_t worker_count = 0;  // 0: one for each CPU that the process may use
  // Frames of each worker, 16 KiB each.
  uint32_t frame_count = 4096;
  // Everything must be reached by pointer: a worker has no block cache.
  TableOptions table;
  // Pins one worker to each CPU, as far as the system permits. Workers are not pinned when they
  // outnumber the CPUs: two would wait for each other while another CPU is idle.
  bool pin = true;
  // The CPUs to pin to; empty: those that the process may use.
  std::vector<uint32_t> cpus;
};

class CoreShards {
 public:
  // kInvalidArgument, kOutOfMemory.
  static Status Start(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards);
  // Calls Stop. No other call may be running, and all clients must be gone.
  ~CoreShards();

  // Serves the table of this name in the directory; *table is its number. The worker with the
  // fewest records so far gets the whole table. Fails with the errors of ExtentFile::Open.
  Status AddTable(int dir_fd, const std::string& name, uint32_t* table);

  // Makes a client for one thread that is not a worker. It must be destroyed before the shards.
  Status MakeClient(std::unique_ptr<ShardClient>* client);
  // Runs `work` on a worker's thread, with that worker's own client, and waits for it. A worker
  // runs work in the order of its arrival. May not be called from inside `work`. Returns
  // kOutOfMemory when `work` throws std::bad_alloc, the only exception that it may throw. Returns
  // kIncomplete when the shards have stopped.
  Status Run(uint32_t worker, const std::function<Status(ShardClient&)>& work);

  // The present sub-tables.
  std::vector<SubTable> SubTables() const { return routes_.Current()->subs; }
  // Gives the sub-table to `worker`. kNotFound, kInvalidArgument.
  Status Move(uint32_t sub_table, uint32_t worker);
  // Ends the sub-table below `key`; the keys from `key` on become a new sub-table of the same
  // worker. kInvalidArgument when `key` does not lie inside the sub-table or is its first key.
  Status Split(uint32_t sub_table, const std::string& key, uint32_t* upper);
  // Moves load from the worker with the most gets since the last call to the worker with the
  // fewest. It moves a sub-table, or the upper half of one. *changed says whether anything was
  // moved. May not be called from inside `work`. kIncomplete when the shards have stopped.
  Status Rebalance(bool* changed);

  // Answers all requests sent so far, then ends the workers. Later requests get kIncomplete. May
  // not be called from inside `work`.
  void Stop();

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint32_t pinned_count() const;
  // Runs of gets that a worker passed on because the client's routes were old.
  uint64_t passed_on_count() const;

 private:
  CoreShards() = default;
  Status StartWorkers(const CoreShardsOptions& options);
  Status Cut(uint32_t sub_table, const std::string& key, const uint32_t* worker, uint32_t* upper);
  Status TakeHeat(std::vector<std::vector<SubTableHeat>>* heats);

  RouteTable routes_;
  TicketPool tickets_;
  std::mutex rebalance_mutex_;
  std::mutex stop_mutex_;
  Ticket stop_ticket_{/*inbox=*/nullptr};
  // Declared last: destroyed, and thereby joined, before the other members.
  std::vector<std::unique_ptr<ShardWorker>> workers_;
};

}  // namespace lab

#endif  // HARNESS_LAB_CORE_SHARDS_H_
