// Runs many tasks on one thread and keeps their reads in flight: the room's lowest layer.
//
// A task that reads enqueues its request and is suspended. Requests go to the queue in batches.
// Blocks that several tasks want by then are read once: values that share blocks lie side by side.
// A read that was submitted earlier is not shared, since a task may want what was written later.
// If a shared read fails, the first task is told, and the others read for themselves.
// Each completion resumes the tasks that wait for it. The scheduler blocks only when no task can go
// on. It then waits until a share of the reads in flight has completed.
//
// One thread at a time. Another thread may go on between two calls of RunOnce.
#ifndef ENGINE_RACE_TASK_SCHEDULER_H_
#define ENGINE_RACE_TASK_SCHEDULER_H_

#include <coroutine>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/task/coroutine_arena.h"
#include "engine_race/task/task.h"

namespace engine_race {

class Scheduler {
 public:
  // The requests that are gathered before they are submitted. Fewer are, when no task can go on.
  static constexpr uint32_t kDefaultBatch = 16;

  // The queue's depth bounds the reads in flight. Reads beyond it wait for their turn. The queue
  // must outlast its back end: see io/lasting_queue.h.
  explicit Scheduler(std::unique_ptr<io::ReadQueue> queue, uint32_t batch = kDefaultBatch);
  // Every task must have ended.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Suspends a task in `co_await scheduler.Read(request)` and gives it the completion of its read.
  // The scheduler sets the request's tag.
  class ReadAwaiter {
   public:
    ReadAwaiter(Scheduler* scheduler, const io::ReadRequest& request)
        : scheduler_(scheduler), request_(request) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) noexcept {
      task_ = task;
      scheduler_->Enqueue(this);
    }
    io::ReadCompletion await_resume() const noexcept { return completion_; }

   private:
    friend class Scheduler;
    Scheduler* const scheduler_;
    io::ReadRequest request_;
    io::ReadCompletion completion_;
    std::coroutine_handle<> task_;
    // Not submitted: the next one that waits. In flight: the next one that shares the read.
    ReadAwaiter* next_ = nullptr;
  };
  ReadAwaiter Read(const io::ReadRequest& request) { return {this, request}; }

  // Runs the task until it first waits. kOutOfMemory for a task that got no memory.
  Status Spawn(Task task);

  // Submits the reads that tasks have enqueued, waits for a share of the reads in flight, and
  // resumes the tasks of those that have completed.
  void RunOnce();
  // RunOnce without waiting, for a caller that has more tasks to spawn while reads are in flight.
  void Poll();
  // Runs until every task has ended.
  void RunAll() {
    while (task_count_ > 0) RunOnce();
  }

  uint32_t task_count() const { return task_count_; }
  // Whether a whole batch of reads waits to be submitted.
  bool has_batch() const { return waiting_count_ >= batch_; }
  uint32_t depth() const { return depth_; }
  uint64_t memory_bytes() const;

 private:
  friend class Task;
  friend struct Task::promise_type;

  void Enqueue(ReadAwaiter* awaiter) noexcept;
  void SubmitGathered();
  bool JoinGathered(ReadAwaiter* awaiter) noexcept;
  static void CopyShared(const ReadAwaiter& reader, const io::ReadCompletion& completion);
  void EnqueueShared(ReadAwaiter* reader) noexcept;
  void Reap(uint32_t wanted);

  const std::unique_ptr<io::ReadQueue> queue_;
  const uint32_t depth_;
  const uint32_t batch_;
  uint32_t task_count_ = 0;
  CoroutineArena arena_;
  // Reads that are not submitted yet, in order.
  ReadAwaiter* first_waiting_ = nullptr;
  ReadAwaiter** last_waiting_ = &first_waiting_;
  uint32_t waiting_count_ = 0;
  // Reads in flight, by their tag.
  std::vector<ReadAwaiter*> in_flight_;
  std::vector<uint32_t> free_tags_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_SCHEDULER_H_
