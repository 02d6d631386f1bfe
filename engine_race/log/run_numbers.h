// Which run each row of a bucket holds, for readers that hold no lock.
//
// Thread safety: SetRun and Clear from one thread at a time, IsBelow from any thread. Owner of its
// memory, which grows with the rows that were used.
#ifndef ENGINE_RACE_LOG_RUN_NUMBERS_H_
#define ENGINE_RACE_LOG_RUN_NUMBERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/base/assert.h"

namespace engine_race {

class RunNumbers {
 public:
  // May throw std::bad_alloc.
  RunNumbers(uint64_t row_count, uint32_t row_records)
      : row_records_(row_records), chunks_((row_count + kChunkRows - 1) / kChunkRows) {}

  // The row holds the run that begins with sequence number `run` * row_records. May throw
  // std::bad_alloc.
  void SetRun(uint32_t row, uint64_t run) {
    // Release pairs with the acquire in IsBelow.
    MakeChunk(row)[row % kChunkRows].store(run + 1, std::memory_order_release);
  }
  // The row holds no run.
  void Clear(uint32_t row) { MakeChunk(row)[row % kChunkRows].store(0, std::memory_order_release); }

  // Whether the record in the slot has a lower sequence number, or was moved there.
  bool IsBelow(uint64_t slot, uint64_t sequence) const {
    const uint64_t row = slot / row_records_;
    ENGINE_RACE_ASSERT(row / kChunkRows < chunks_.size());
    // Acquire pairs with the release in MakeChunk, and in SetRun.
    const Word* const chunk = chunks_[row / kChunkRows].words.load(std::memory_order_acquire);
    if (chunk == nullptr) return true;
    const uint64_t run = chunk[row % kChunkRows].load(std::memory_order_acquire);
    return run == 0 || (run - 1) * row_records_ + slot % row_records_ < sequence;
  }

 private:
  using Word = std::atomic<uint64_t>;
  static constexpr uint64_t kChunkRows = 512;
  struct Chunk {
    std::unique_ptr<Word[]> owned;
    std::atomic<Word*> words{nullptr};
  };

  Word* MakeChunk(uint32_t row) {
    Chunk& chunk = chunks_[row / kChunkRows];
    if (chunk.owned == nullptr) {
      chunk.owned = std::make_unique<Word[]>(kChunkRows);
      chunk.words.store(chunk.owned.get(), std::memory_order_release);
    }
    return chunk.owned.get();
  }

  const uint32_t row_records_;
  std::vector<Chunk> chunks_;
};

// Which slots of a bucket have their values in the value log for good. More may have by the time
// that one is looked at. A value; it must not outlive the log.
class LoggedSlots {
 public:
  // Slots are sequence numbers, unless `numbers` says what the rows hold.
  LoggedSlots(uint64_t watermark, const RunNumbers* numbers = nullptr)  // NOLINT: a count is one
      : watermark_(watermark), numbers_(numbers) {}

  // Of a slot that was found as that of a record.
  bool Contains(uint64_t slot) const {
    return numbers_ == nullptr ? slot < watermark_ : numbers_->IsBelow(slot, watermark_);
  }

 private:
  uint64_t watermark_;
  const RunNumbers* numbers_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_RUN_NUMBERS_H_
