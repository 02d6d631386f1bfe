// Puts the writes of many threads into one transaction of a store that has a single writer.
//
// A thread that comes while nobody commits becomes the leader. It takes all writes that wait,
// commits them, wakes their threads and hands over to the next leader. Each thread returns once its
// own write is committed. Thread-safe.
#ifndef HARNESS_LOAD_GROUP_COMMIT_H_
#define HARNESS_LOAD_GROUP_COMMIT_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <utility>

#include "engine_race/base/status.h"

namespace engine_race::harness {

struct GroupedWrite {
  uint64_t key = 0;
  const char* value = nullptr;  // null deletes the key
};

class GroupCommit {
 public:
  // Commits all of the writes or none. One thread at a time calls it.
  using CommitFn = std::function<Status(std::span<const GroupedWrite> writes)>;

  GroupCommit(size_t max_count, CommitFn commit)
      : max_count_(max_count), commit_(std::move(commit)) {}

  // Returns when a group with this write has been committed or has failed.
  Status Submit(const GroupedWrite& write);

 private:
  struct Waiter {
    GroupedWrite write;
    bool done = false;
    Status status;
    std::condition_variable turn;
  };

  const size_t max_count_;
  const CommitFn commit_;
  std::mutex mutex_;
  // The first one leads.
  std::deque<Waiter*> waiting_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_GROUP_COMMIT_H_
