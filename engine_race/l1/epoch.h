// Epochs: when memory that readers may still look at can be used again.
//
// A reader enters before it follows a pointer and leaves when it is done, after nanoseconds to
// microseconds. It never waits inside. A thread that makes a frame unreachable asks for the current
// epoch. The frame may be used again once every reader inside has entered later. The other way, a
// count in each frame, takes a locked operation on a cache line that all readers of the frame
// share.
//
// Entering is a plain store to a cache line of the thread's own. The fence that should follow it is
// missing. A fence or a locked operation would keep the cache misses of one lookup from overlapping
// those of the one before. That would cost more than the lookup's instructions.
//
// Instead, a thread that looks which readers are inside calls membarrier, once for many frames. The
// kernel then runs a fence on every processor that runs a thread of the process. Readers enter by a
// locked operation where the kernel refuses membarrier. They also do so in the lines that threads
// share, because there may be more threads than lines.
//
// The process must register before it calls membarrier. That takes some 10 ms where it has several
// threads, so the first read of a store does not do it. Until then readers enter by a locked
// operation. The reader that makes entry kEntriesBeforeFences of these registers the process.
//
// Each reader's line also has counters, so that counting touches no other cache line.
//
// Thread-safe. A thread may enter again while it is inside; then it must leave twice.
#ifndef ENGINE_RACE_L1_EPOCH_H_
#define ENGINE_RACE_L1_EPOCH_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"
#include "engine_race/base/thread_number.h"

namespace engine_race::l1 {

class EpochManager {
  static constexpr uint64_t kOutside = 0;
  // If all lines are taken, a reader waits for another one to leave. The first kOwnedLineCount
  // lines belong to one thread each, as long as the thread lives.
  static constexpr uint32_t kLineCount = 256;
  static constexpr uint32_t kOwnedLineCount = 192;
  struct alignas(64) ReaderLine {
    std::atomic<uint64_t> entered{kOutside};
    // Counted by the thread that is inside.
    std::atomic<uint64_t> value_hits{0};
    std::atomic<uint64_t> value_misses{0};
    std::atomic<uint64_t> block_hits{0};
    std::atomic<uint64_t> block_misses{0};
  };

 public:
  // Locked entries before a reader registers the process. All of them together cost less than
  // registering does.
  static constexpr uint32_t kEntriesBeforeFences = 1 << 16;

  EpochManager();
  EpochManager(const EpochManager&) = delete;
  EpochManager& operator=(const EpochManager&) = delete;

  class Guard {
   public:
    explicit Guard(EpochManager& manager) : line_(*manager.Enter()) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    // Release: pairs with the load in SafeBelow, so that all reads inside come before the frame is
    // used again. Also pairs with the next entry into this line, whose thread goes on counting.
    ~Guard() {
      ENGINE_RACE_ASSERT(line_.entered.load(std::memory_order_relaxed) != kOutside);
      line_.entered.store(kOutside, std::memory_order_release);
    }

    void CountHit() { CountOne(&line_.value_hits); }
    void CountMiss() { CountOne(&line_.value_misses); }
    void CountBlockHit() { CountOne(&line_.block_hits); }
    void CountBlockMiss() { CountOne(&line_.block_misses); }

   private:
    // Relaxed: no other thread counts in this line. TakeCounts may miss the last counts.
    static void CountOne(std::atomic<uint64_t>* count) {
      count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    ReaderLine& line_;
  };

  // Returns the current epoch and begins the next. The caller has made something unreachable
  // before.
  uint64_t Retire() { return now_.fetch_add(1, std::memory_order_seq_cst); }
  // No reader inside can have seen anything that was retired in an epoch below this one.
  uint64_t SafeBelow() const;

  // The sums of all lines.
  struct Counts {
    uint64_t value_hits = 0;  // values that were found in a frame
    uint64_t value_misses = 0;
    uint64_t block_hits = 0;
    uint64_t block_misses = 0;
  };
  Counts TakeCounts() const;

  static constexpr uint64_t MemoryBytes() { return kLineCount * sizeof(ReaderLine); }

 private:
  ReaderLine* Enter() {
    const uint32_t number = ThreadNumber();
    // Acquire: pairs with the exchange in RegisterForFences, which follows every SafeBelow that ran
    // no fence. A frame that such a call has found safe is gone for this reader.
    if (number < owned_line_count_.load(std::memory_order_acquire)) [[likely]] {
      ReaderLine* const line = &lines_[number];
      // Relaxed: only this thread writes to the line. If it is inside already, it enters a shared
      // line.
      if (line->entered.load(std::memory_order_relaxed) == kOutside) [[likely]] {
        // The epoch may be over when it is stored: then frames wait longer than necessary. Acquire:
        // pairs with Retire, so that a reader that enters in a later epoch sees what was done
        // before it. Relaxed: SafeBelow runs the fence behind this store. Either it sees the line,
        // or the reader's later loads see that the frame is gone.
        line->entered.store(now_.load(std::memory_order_acquire), std::memory_order_relaxed);
        // Keeps the compiler from moving later loads before the store.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return line;
      }
    }
    return EnterShared(number);
  }
  ReaderLine* EnterShared(uint32_t number);
  // Lets readers enter lines of their own from now on, if the kernel lets this process use fences.
  void RegisterForFences();

  static bool TryEnter(ReaderLine* line, uint64_t epoch) {
    uint64_t expected = kOutside;
    // Sequentially consistent, like the change that makes a frame unreachable. Either the retiring
    // thread sees the line, or the reader sees that the frame is gone. Relaxed if the line is
    // taken.
    return line->entered.compare_exchange_strong(expected, epoch, std::memory_order_seq_cst,
                                                 std::memory_order_relaxed);
  }

  alignas(64) std::atomic<uint64_t> now_{1};
  const std::unique_ptr<ReaderLine[]> lines_;
  // kOwnedLineCount once SafeBelow runs fences, else 0. Mutable: SafeBelow changes it by 0, to be
  // ordered with RegisterForFences.
  mutable std::atomic<uint32_t> owned_line_count_{0};
  // Where the lines that threads share begin: 0 where the kernel has no fences. Relaxed: until it
  // is 0, no line before it is used.
  std::atomic<uint32_t> first_shared_line_;
  // Stops at kEntriesBeforeFences. Relaxed: fetch_add lets exactly one reader register, and nothing
  // else is ordered by it. In a line of its own, because each entry reads the one above.
  alignas(64) std::atomic<uint32_t> shared_entry_count_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EPOCH_H_
