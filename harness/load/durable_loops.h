// The least cost of durable 4 KiB writes: loops that do nothing else.
//
// Both write with direct I/O into a file whose blocks have all been written before, so that a flush
// has no metadata to write. An error ends the loop and gives a rate of zero.
#ifndef HARNESS_LOAD_DURABLE_LOOPS_H_
#define HARNESS_LOAD_DURABLE_LOOPS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"

namespace engine_race::harness {

class DurableLoops {
 public:
  // Makes the file in `dir`; the destructor removes it.
  DurableLoops(const std::string& dir, uint32_t thread_count);
  ~DurableLoops();

  // Returns durable writes a second: each thread writes 4 KiB and calls fdatasync.
  double WithAFlushEach(double seconds);
  // Likewise, but one of the threads that wait calls fdatasync for all of them.
  double WithALeader(double seconds);

 private:
  // Durable writes a second by all threads; flush() makes a block durable that has been written. 0
  // after a failure.
  double Rate(double seconds, FunctionRef<bool()> flush) const;

  std::string path_;
  uint32_t thread_count_;
  UniqueFd fd_;
};

// Puts the writes of many threads into one transaction of a store that has a single writer.
//
// A thread that comes while nobody commits becomes the leader. It takes all writes that wait,
// commits them, wakes their threads and hands over to the next leader. Each thread returns once its
// own write is committed. Thread-safe.
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

#endif  // HARNESS_LOAD_DURABLE_LOOPS_H_
