// The queue of batches and posted reads that wait for a worker, and its fairness.
//
// A source is a batch whose caller runs no worker, or all posted reads together, first in, first
// out. The sources form a ring in the order of their arrival.
//
// Workers take turns. A turn is up to kTurnJobs jobs of the source at the ring's head. If the
// source has more jobs, it then goes to the ring's end. A caller of MultiRead may run a worker. It
// may then take a turn for its own batch after each turn that its worker took from the ring. While
// the ring is empty it may do so at any time.
//
// The bound: let a source arrive behind `k` others, with `W` workers. Before its first turn at most
// `k` turns are taken from the ring, and at most `k + W` turns for batches of callers that run
// workers. That is (2 k + W) * kTurnJobs jobs, whatever arrives meanwhile. From each of its turns
// to its next the same bound holds, `k` being the number of the other sources then.
//
// Thread safety: every call under the owner's mutex, except has_waiting() and source_count().
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
  // The next job. The turn must not be empty.
  ReadJob Pop() noexcept;
  // Calls visit(key) for the jobs that are left, except for keys of a wrong size.
  template <typename VisitFn>
  void ForEachKey(const VisitFn& visit) const {
    for (size_t i = next_; i < end_; ++i) {
      const ReadJob job = batch_->JobOf(i);
      if (job.value.is_set()) visit(job.key);
    }
    for (const PostedRead* read = posted_; read != nullptr; read = read->next) visit(read->key);
  }

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
  // Takes the first reads, at most `max_count`, linked by `next`. Null when there are none.
  PostedRead* Pop(size_t max_count) noexcept;

 private:
  PostedRead* first_ = nullptr;
  PostedRead* last_ = nullptr;
  size_t count_ = 0;
};

class ReadTurns {
 public:
  // Large enough that the mutex costs little beside the reads of a turn. Small beside the number of
  // reads that a worker keeps in flight.
  static constexpr size_t kTurnJobs = 32;

  // Adds a batch, which must have keys left. It is in the ring until its last key is taken or
  // PopBatch returns it.
  void Add(ReadBatch* batch) noexcept;
  void Post(PostedRead* read) noexcept;
  size_t posted_count() const { return posted_.count(); }

  // Takes the next turn from the ring. False when nothing waits.
  bool Take(Turn* turn) noexcept;
  // Takes a turn of a batch that is not in the ring. Called without the mutex by the thread that
  // runs a worker for that batch. False when all its keys are taken.
  static bool TakeOwn(ReadBatch* batch, Turn* turn) noexcept;
  // Takes the next batch out of the ring. Null when there is none.
  ReadBatch* PopBatch() noexcept;

  // Any thread. A relaxed hint: with it workers take the mutex only if that may be of use.
  bool has_waiting() const { return source_count() > 0; }
  uint32_t source_count() const { return source_count_.load(std::memory_order_relaxed); }

 private:
  void Append(TurnSource* source) noexcept;

  // The ring, from its head to its end.
  TurnSource* head_ = nullptr;
  TurnSource** end_ = &head_;
  // Stands for all posted reads. It is in the ring while there are any.
  TurnSource posted_source_;
  PostedList posted_;
  std::atomic<uint32_t> source_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_TURNS_H_
