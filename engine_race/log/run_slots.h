// Which runs the rows of a bucket hold, for readers that hold no lock.
//
// A reader may see a row in the middle of a change. Then it may take a record that stays for one
// that is staged, and asks under the lock. Or it looks for a record that is gone, and notices that:
// see BucketLog::ReuseCount. A reader that found a slot of the new run sees all of the run.
//
// Thread safety: Set from one thread at a time, the others from any thread. Owner of its memory,
// which grows with the rows that were used.
#ifndef ENGINE_RACE_LOG_RUN_SLOTS_H_
#define ENGINE_RACE_LOG_RUN_SLOTS_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine_race/log/row.h"

namespace engine_race {

class RunSlots {
 public:
  explicit RunSlots(uint32_t row_records) : row_records_(row_records) {}
  RunSlots(const RunSlots&) = delete;
  RunSlots& operator=(const RunSlots&) = delete;
  ~RunSlots() {
    // Relaxed: nobody else has the runs any more.
    for (const std::atomic<Run*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  uint32_t row_records() const { return row_records_; }

  // The row holds the run of `row`, or none. May throw std::bad_alloc.
  void Set(uint32_t index, const Row& row) {
    Run& run = RunsFrom(index)[InChunk(index)];
    run.number.store(row.number, std::memory_order_relaxed);
    for (size_t i = 0; i < SlotBits::kWordCount; ++i) {
      // Release pairs with the acquire in IsBelow.
      run.path[i].store(row.path.words()[i], std::memory_order_release);
    }
  }

  // Whether the record in the slot has a lower sequence number, or is not of a run.
  bool IsBelow(uint64_t slot, uint64_t sequence) const {
    const auto row = static_cast<uint32_t>(slot / row_records_);
    // Acquire pairs with the release in RunsFrom, and in Set.
    const Run* const chunk = chunks_[ChunkOf(row)].load(std::memory_order_acquire);
    if (chunk == nullptr) return true;
    const Run& run = chunk[InChunk(row)];
    SlotBits::Words words;
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = run.path[i].load(std::memory_order_acquire);
    }
    const SlotBits path(words);
    const auto in_row = static_cast<uint32_t>(slot % row_records_);
    return !path.Has(in_row) ||
           run.number.load(std::memory_order_relaxed) + path.CountBefore(in_row) < sequence;
  }

 private:
  struct Run {
    std::atomic<uint64_t> number{0};
    std::array<std::atomic<uint64_t>, SlotBits::kWordCount> path{};
  };
  // Each chunk is as long as all before it, and the first one is kFirstRows long.
  static constexpr uint32_t kFirstRows = 8;
  static constexpr size_t kChunkCount = 30;
  static_assert(uint64_t{kFirstRows} << (kChunkCount - 1) == uint64_t{1} << 32);

  static uint32_t ChunkOf(uint32_t row) {
    return static_cast<uint32_t>(std::bit_width(row / kFirstRows));
  }
  static uint32_t FirstOf(uint32_t chunk) { return chunk == 0 ? 0 : kFirstRows << (chunk - 1); }
  static uint32_t InChunk(uint32_t row) { return row - FirstOf(ChunkOf(row)); }

  Run* RunsFrom(uint32_t row) {
    const uint32_t number = ChunkOf(row);
    // Relaxed: only the thread that sets rows stores it.
    Run* runs = chunks_[number].load(std::memory_order_relaxed);
    if (runs == nullptr) {
      runs = new Run[number == 0 ? kFirstRows : FirstOf(number)];
      chunks_[number].store(runs, std::memory_order_release);
    }
    return runs;
  }

  const uint32_t row_records_;
  // Owned. A word each, because every bucket with rows has them all.
  std::array<std::atomic<Run*>, kChunkCount> chunks_{};
};

// Which slots of a bucket have their values in the value log for good. More may have by the time
// that one is looked at. A value; it must not outlive the log.
class LoggedSlots {
 public:
  // Slots are sequence numbers, unless `runs` says what the rows hold.
  LoggedSlots(uint64_t watermark, const RunSlots* runs = nullptr)  // NOLINT: a count is one
      : watermark_(watermark), runs_(runs) {}

  // Of a slot that was found as that of a record.
  bool Contains(uint64_t slot) const {
    return runs_ == nullptr ? slot < watermark_ : runs_->IsBelow(slot, watermark_);
  }

 private:
  uint64_t watermark_;
  const RunSlots* runs_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_RUN_SLOTS_H_
