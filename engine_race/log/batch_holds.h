// The buckets that a batch holds: it alone appends to them, so their next slots are its own.
//
// Buckets are held in ascending order, so two batches never wait for each other in a circle. The
// groups of a held bucket are written and synced meanwhile, and its records are read.
//
// Thread safety: for one thread, beside all others at the buckets.
// Owner of the holds: the destructor releases what is left, and takes back the places of groups in
// which no record was counted.
#ifndef ENGINE_RACE_LOG_BATCH_HOLDS_H_
#define ENGINE_RACE_LOG_BATCH_HOLDS_H_

#include <cstdint>
#include <mutex>

#include "engine_race/base/status.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/log_context.h"

namespace engine_race {

class BatchHolds {
 public:
  // Works on all three, which outlive it.
  BatchHolds(LogContext* context, GroupWriter* groups, BatchPlan* plan)
      : context_(*context), groups_(*groups), plan_(*plan) {}
  BatchHolds(const BatchHolds&) = delete;
  BatchHolds& operator=(const BatchHolds&) = delete;
  ~BatchHolds();

  // Holds all buckets of the plan: their next records have slots, and their listeners have made
  // room. Each part also gets the places of its records, and waits for them. *too_large: not done,
  // a bucket can never have places for all its records. Null is for a large batch: it takes no
  // places, and waits until no thread cleans the buckets. kFull, kIOError, kCorruption, and what a
  // listener's Prepare says.
  Status HoldAll(bool* too_large);

 private:
  Status Hold(BatchPart* part, std::unique_lock<std::mutex>* lock, bool unclaimed);
  Status TakePlaces(BatchPart* part, std::unique_lock<std::mutex>* lock);
  Status PrepareListener(const BatchPart& part);
  void GiveBack(const BatchPart& part);

  LogContext& context_;
  GroupWriter& groups_;
  BatchPlan& plan_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_HOLDS_H_
