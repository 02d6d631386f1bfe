// Keeps a cut through all buckets from going through a batch.
//
// A batch is inside from before its first count moves until after its last one has. A cut (Sync
// takes the counts that it will make durable) waits until no batch is inside, and keeps others out
// meanwhile. Neither waits inside for anything but locks of buckets and of the index.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_LOG_BATCH_GATE_H_
#define ENGINE_RACE_LOG_BATCH_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine_race/base/assert.h"
#include "engine_race/base/function_ref.h"

namespace engine_race {

class BatchGate {
 public:
  void Enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return cut_count_ == 0; });
    ++batch_count_;
  }
  void Leave() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ENGINE_RACE_ASSERT(batch_count_ > 0);
      if (--batch_count_ > 0 || cut_count_ == 0) return;
    }
    changed_.notify_all();
  }
  // Runs `cut` while no batch is inside.
  void Cut(FunctionRef<void()> cut) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      ++cut_count_;
      changed_.wait(lock, [this] { return batch_count_ == 0; });
    }
    const EndOfCut end(this);
    cut();
  }

 private:
  // Lets batches in again, also after a cut that throws.
  class EndOfCut {
   public:
    explicit EndOfCut(BatchGate* gate) : gate_(*gate) {}
    EndOfCut(const EndOfCut&) = delete;
    EndOfCut& operator=(const EndOfCut&) = delete;
    ~EndOfCut() {
      {
        const std::lock_guard<std::mutex> lock(gate_.mutex_);
        --gate_.cut_count_;
      }
      gate_.changed_.notify_all();
    }

   private:
    BatchGate& gate_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t batch_count_ = 0;  // inside
  uint64_t cut_count_ = 0;    // under way or waiting
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_GATE_H_
