// The bound on asynchronous reads that are pending: started, and their functions have not returned.
//
// Each takes a place. At the limit a thread that starts another one waits for a place or is told
// kBusy, as the options of the store say. A thread that runs the function of a read never waits:
// reads whose functions waited for one another would never end. Instead the first read that the
// function starts takes over the place of the read that has just ended. So a function that starts
// the next read always can. Further ones are kBusy at the limit.
//
// Thread-safe. A place costs two changes of one word, unless a thread waits.
#ifndef ENGINE_RACE_TASK_READ_BOUND_H_
#define ENGINE_RACE_TASK_READ_BOUND_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine_race/base/status.h"

namespace engine_race {

class ReadBound {
 public:
  // `waits`: as Options::async_read_waits.
  ReadBound(uint32_t limit, bool waits) : limit_(limit), waits_(waits) {}
  ReadBound(const ReadBound&) = delete;
  ReadBound& operator=(const ReadBound&) = delete;

  // Takes a place, which belongs to the read until Give or until its function has returned. kBusy.
  Status Take();
  void Give() noexcept;

  // While it lives, this thread runs the function of a read. It gives the read's place back at the
  // end, unless another read took that over.
  class Function {
   public:
    explicit Function(ReadBound* bound) noexcept;
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;
    ~Function();

   private:
    friend class ReadBound;
    ReadBound* const bound_;
    Function* const outer_;  // around this one on the same thread, perhaps another store's
    bool has_place_ = true;
  };

  // Relaxed, all: statistics.
  uint32_t pending_count() const { return pending_.load(std::memory_order_relaxed); }
  uint32_t most_pending_count() const { return most_pending_.load(std::memory_order_relaxed); }
  uint32_t waiting_count() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  bool TryTake() noexcept;

  const uint32_t limit_;
  const bool waits_;
  std::atomic<uint32_t> pending_{0};
  std::atomic<uint32_t> most_pending_{0};
  std::atomic<uint32_t> waiting_{0};  // changes under mutex_
  std::mutex mutex_;
  std::condition_variable place_given_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_BOUND_H_
