// Gets in batches, split by who has the keys: the way into the core shards.
//
// A batch costs one mail for each worker that has some of it, wherever in the batch these are: the
// keys are put together by sub-table, answered side by side, and given back to their places.
//
// One thread at a time, and the same worker's where it is a worker's own. The shards outlive it.
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

// One lookup: `key` and `payload` are as long as the table says, and stay until it is answered.
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
  // `here` is the worker whose own this is; null for a thread that is none. `ticket` goes back to
  // `tickets`, which may be null. The rest outlives it.
  ShardClient(RouteTable* routes, std::span<const std::unique_ptr<ShardWorker>> workers,
              ShardWorker* here, Ticket* ticket, TicketPool* tickets);
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;
  ~ShardClient();

  // Answers all of them, each by itself.
  void Get(std::span<ShardGet> gets) noexcept;

  // Which worker has a key now; the number of workers where no table does.
  uint32_t WorkerOf(uint32_t table, const char* key);

 private:
  void Refresh();
  // The routes of each get, and how many each sub-table has. False when there is nothing to do.
  bool Count(std::span<ShardGet> gets);
  // The runs, their memory, and a mail for each worker.
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

  // Of the batch; kept for the next one.
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
