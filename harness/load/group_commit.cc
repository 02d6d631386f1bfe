#include "harness/load/group_commit.h"

#include <algorithm>
#include <vector>

namespace engine_race::harness {

Status GroupCommit::Submit(const GroupedWrite& write) {
  Waiter self;
  self.write = write;
  std::unique_lock lock(mutex_);
  waiting_.push_back(&self);
  self.turn.wait(lock, [&] { return self.done || waiting_.front() == &self; });
  if (self.done) return self.status;
  const std::vector<Waiter*> group(waiting_.begin(),
                                   waiting_.begin() + std::min(waiting_.size(), max_count_));
  // The group stays queued meanwhile, so no other thread becomes the leader.
  lock.unlock();
  std::vector<GroupedWrite> writes;
  writes.reserve(group.size());
  for (const Waiter* waiter : group) writes.push_back(waiter->write);
  const Status status = commit_(writes);
  lock.lock();
  waiting_.erase(waiting_.begin(), waiting_.begin() + group.size());
  for (Waiter* waiter : group) {
    waiter->status = status;
    waiter->done = true;
    if (waiter != &self) waiter->turn.notify_one();
  }
  if (!waiting_.empty()) waiting_.front()->turn.notify_one();
  return status;
}

}  // namespace engine_race::harness
