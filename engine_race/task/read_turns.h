// The one queue of batches and posted reads that wait for a worker, and its fairness.
//
// A source is a batch whose caller runs no worker, or all the posted reads together, which are
// served first in, first out. The sources form a ring in the order of their arrival. A worker takes
// turns: a turn is up to kTurnJobs jobs of the source at the ring's head, and a source that has
// more jobs then goes to the ring's end. A caller of MultiRead that runs a worker may take a turn
// for its own batch after each turn that the same worker took from the ring, and at any time while
// the ring is empty.
//
// The bound: let a source arrive behind k others, with W workers. Until its first jobs are taken at
// most k turns are taken from the ring, and k + W for batches of callers that run workers. That is
// (2 k + W) * kTurnJobs jobs, whatever arrives meanwhile. The same bound holds from each of its
// turns to its next, k being the number of the other sources then.
//
// Thread safety: every call under the owner's mutex, except has_waiting().
#ifndef ENGINE_RACE_TASK_READ_TURNS_H_
#define ENGINE_RACE_TASK_READ_TURNS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine_race/task/read_batch.h"
#include "engine_race/task/read_job.h"

namespace engine_race {

// Jobs of one source that a worker has taken and not begun.
class Turn {
 public:
  bool empty() const { return next_ == end_ && posted_ == nullptr; }
  // The next job of a turn that is not empty.
  ReadJob Pop() noexcept;

 private:
  friend class ReadTurns;
  ReadBatch* batch_ = nullptr;
  size_t next_ = 0;
  size_t end_ = 0;
  PostedRead* posted_ = nullptr;
};

// Posted reads, first in, first out.
class PostedList {
 public:
  bool empty() const { return first_ == nullptr; }
  size_t count() const { return count_; }
  void Push(PostedRead* read) noexcept;
  // The first reads, `max_count` at most, linked by their `next`; null when there are none.
  PostedRead* Pop(size_t max_count) noexcept;

 private:
  PostedRead* first_ = nullptr;
  PostedRead* last_ = nullptr;
  size_t count_ = 0;
};

class ReadTurns {
 public:
  // Enough that the mutex costs little beside the reads of a turn; a small part of what a worker
  // keeps in flight.
  static constexpr size_t kTurnJobs = 32;

  // The batch arrives; it stays until its last key is taken or PopBatch gives it. One that has keys
  // left.
  void Add(ReadBatch* batch) noexcept;
  void Post(PostedRead* read) noexcept;
  size_t posted_count() const { return posted_.count(); }

  // The next turn from the ring. False when nothing waits.
  bool Take(Turn* turn) noexcept;
  // A turn of a batch that is not in the ring, by the thread that runs a worker for it, without the
  // mutex. False when all its keys are taken.
  static bool TakeOwn(ReadBatch* batch, Turn* turn) noexcept;
  // Takes the batch whose turn is next out of the ring; null when there is none.
  ReadBatch* PopBatch() noexcept;

  // Any thread, relaxed: a hint for workers, so that they take the mutex only if it is of use.
  bool has_waiting() const { return source_count() > 0; }
  uint32_t source_count() const { return source_count_.load(std::memory_order_relaxed); }

 private:
  void Append(TurnSource* source) noexcept;

  // The ring, from its head to its end.
  TurnSource* head_ = nullptr;
  TurnSource** end_ = &head_;
  // The place of all posted reads; in the ring while there are any.
  TurnSource posted_source_;
  PostedList posted_;
  std::atomic<uint32_t> source_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_TURNS_H_
