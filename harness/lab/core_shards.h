// Shared-nothing execution: worker threads pinned one to a core, each with tables, frames and
// epochs that no other thread touches. The front page of the shards.
//
// Clients hand requests over in batches and get them back in batches (ShardClient); a thread that
// is itself a worker answers its own share at once, and others' requests while it waits for the
// rest (Run). Tables are split among the workers, whole or by ranges of keys ("sub-tables"); which
// worker has which is a routing table that is replaced as a whole. A hot sub-table can be moved to
// another worker, or split in two, while requests are under way: a worker that gets a request for
// what it no longer has passes it on.
//
// Between foreground threads nothing else is shared. Workers sleep when there is nothing to do.
//
// Thread-safe, but for what is said otherwise.
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
// Of one table.
inline constexpr uint32_t kMaxSubTables = 4096;

struct CoreShardsOptions {
  uint32_t worker_count = 0;  // 0: one for each CPU that the process may use
  // Of each worker, 16 KiB each.
  uint32_t frame_count = 4096;
  // Everything is reached by pointer: a worker has no cache to ask.
  TableOptions table;
  // One worker to a CPU, as far as the system grants it. Not when there are more workers than CPUs:
  // they would wait for each other while another CPU has nothing to do.
  bool pin = true;
  // Which CPUs; empty: those that the process may use.
  std::vector<uint32_t> cpus;
};

class CoreShards {
 public:
  // kInvalidArgument, kOutOfMemory.
  static Status Start(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards);
  // Stops. No call is under way, and clients are gone.
  ~CoreShards();

  // Serves the table of this name in the directory; *table is its number. It goes to the worker
  // with the fewest records so far, as a whole. What ExtentFile::Open answers otherwise.
  Status AddTable(int dir_fd, const std::string& name, uint32_t* table);

  // For one thread, which is no worker. Goes before the shards do.
  Status MakeClient(std::unique_ptr<ShardClient>* client);
  // Has a worker do this and waits until it has: the client is the worker's own. Work is done in
  // the order in which it comes in. Not from inside work. `work` may not throw; what it may,
  // refused memory, is kOutOfMemory. kIncomplete when the shards have stopped.
  Status Run(uint32_t worker, const std::function<Status(ShardClient&)>& work);

  // The cut of the tables now.
  std::vector<SubTable> SubTables() const { return routes_.Current()->subs; }
  // From now on `worker` has the sub-table. kNotFound, kInvalidArgument.
  Status Move(uint32_t sub_table, uint32_t worker);
  // Ends the sub-table below `key`; what lies from there on is a new one, of the same worker.
  // kInvalidArgument when `key` does not lie above its beginning and below its end.
  Status Split(uint32_t sub_table, const std::string& key, uint32_t* upper);
  // Takes from the worker that was asked for most, since the last time, for the one that was asked
  // for least: a sub-table if that makes it more even, or half of the hottest one. *changed says
  // whether it did. Not from inside work. kIncomplete when the shards have stopped.
  Status Rebalance(bool* changed);

  // Answers everything that was handed over, then ends the workers; what comes later is
  // kIncomplete. Not from inside work.
  void Stop();

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint32_t pinned_count() const;
  // Runs of gets that went to another worker than the client had thought.
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
  // Joined before the rest goes.
  std::vector<std::unique_ptr<ShardWorker>> workers_;
};

}  // namespace lab

#endif  // HARNESS_LAB_CORE_SHARDS_H_
