// Gets in batches, split by the workers that have the keys: the way into the core shards.
//
// A batch costs one mail for each worker that has some of its keys. The client groups the keys by
// sub-table, the workers answer them side by side, and each answer returns to its get.
//
// Not thread-safe; a worker's own client is used by that worker only. The shards outlive it.
#ifndef HARNESS_LAB_SHARD_CLIENT_H_
#define HARNESS_LAB_SHARD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/lab/engine_names.h"
#include "harness/lab/shard_mail.h"
#include "harness/lab/shard_routes.h"

namespace lab {

// One lookup. The table's shape gives the lengths of `key` and `payload`, which must live until it
// is answered.
struct ShardGet {
  uint32_t table = 0;
  const char* key = nullptr;
  char* payload = nullptr;  // written when status is Ok
  // kNotFound, kCorruption, kIOError, kOutOfMemory; kInvalidArgument for no such table, kIncomplete
  // when the shards have stopped.
  Status status;
};

class ShardClient {
 public:
  // `here` is the worker that owns this client, or null. The destructor returns `ticket` to
  // `tickets`, unless that is null. The other arguments outlive the client.
  ShardClient(RouteTable* routes, std::span<const std::unique_ptr<ShardWorker>> workers,
              ShardWorker* here, Ticket* ticket, TicketPool* tickets);
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;
  ~ShardClient();

  // Answers all gets, each with a status of its own.
  void Get(std::span<ShardGet> gets) noexcept;

  // The worker that has the key now; the number of workers when there is no such table.
  uint32_t WorkerOf(uint32_t table, const char* key);

 private:
  void Refresh();
  // Finds the sub-table of each get and counts the gets of each sub-table. False when there is
  // nothing to do.
  bool Count(std::span<ShardGet> gets);
  // Makes the runs, their memory, and a mail for each worker.
  void LayOut();
  void Fill(std::span<const ShardGet> gets);
  void HandOver();
  void GiveBack(std::span<ShardGet> gets);

  RouteTable& routes_table_;
  const std::span<const std::unique_ptr<ShardWorker>> workers_;
  ShardWorker* const here_;
  Ticket& ticket_;
  TicketPool* const tickets_;
  std::shared_ptr<const Routes> routes_;

  // The present batch; the memory is reused by the next one.
  std::vector<uint32_t> subs_;     // of each get; kNoSub for none
  std::vector<uint32_t> counts_;   // of each sub-table, zero between batches
  std::vector<uint32_t> touched_;  // sub-tables that have some, by worker
  std::vector<ShardRun> runs_;     // as touched_
  std::vector<Mail> mails_;        // of each worker that has some
  std::vector<uint32_t> owners_;   // of mails_
  std::vector<char> keys_;
  std::vector<char> payloads_;
  std::vector<Status> statuses_;
  std::vector<uint32_t> places_;
};

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_CLIENT_H_
