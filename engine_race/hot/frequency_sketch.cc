#include "engine_race/hot/frequency_sketch.h"

#include <algorithm>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

// All of it relaxed: estimates that order nothing.

Status FrequencySketch::Allocate(uint32_t key_count, const Placement& placement) {
  const uint32_t block_count = BlockCount(key_count);
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(uint64_t{block_count} * sizeof(Block),
                                               /*huge_pages=*/true, &blocks_, placement));
  block_count_ = block_count;
  return Status::Ok();
}

// The four counters of a key. Their words are different ones, whatever the key.
struct FrequencySketch::Counters {
  Counters(const Block& block, uint64_t hash) {
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kRows; ++row) {
      const Counter counter = CounterOf(hash, row);
      words[row] = block.words[counter.word].load(std::memory_order_relaxed);
      counts[row] = static_cast<uint32_t>(words[row] >> counter.shift) & kMaxFrequency;
      least = std::min(least, counts[row]);
    }
  }

  // Only the least are raised: the others count other keys, too. Which they are is not to be
  // guessed, so the rest is written again as it was. Whatever others write at the same time, none
  // is raised beyond its end.
  void RaiseLeast(Block* block, uint64_t hash) const {
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kRows; ++row) {
      const Counter counter = CounterOf(hash, row);
      const uint64_t one = counts[row] == least ? 1 : 0;
      block->words[counter.word].store(words[row] + (one << counter.shift),
                                       std::memory_order_relaxed);
    }
  }

  uint64_t words[kRows];
  uint32_t counts[kRows];
  uint32_t least = kMaxFrequency;
};

uint32_t FrequencySketch::PeriodOf(const Block& block) {
  return static_cast<uint32_t>(block.words[0].load(std::memory_order_relaxed) >> 32);
}

uint32_t FrequencySketch::Estimate(uint64_t key) const noexcept {
  const uint64_t hash = Hash(key);
  const Block& block = *BlockOf(hash);
  const uint32_t passed = Period() - PeriodOf(block);
  return passed < kCounterBits ? Counters(block, hash).least >> passed : 0;
}

uint32_t FrequencySketch::Note(uint64_t key) noexcept {
  const uint64_t hash = Hash(key);
  Block* const block = BlockOf(hash);
  const uint32_t period = Period();
  if (PeriodOf(*block) != period) [[unlikely]] {
    Age(block, period);
  }
  const Counters counters(*block, hash);
  if (counters.least == kMaxFrequency) return kMaxFrequency;
  CountNote(block);
  counters.RaiseLeast(block, hash);
  ENGINE_RACE_ASSERT(counters.least < kMaxFrequency);
  return counters.least + 1;
}

// Halves the block's counters once for each period that has passed.
void FrequencySketch::Age(Block* block, uint32_t period) noexcept {
  constexpr uint64_t kLowBits = 0x7777777777777777;
  const uint32_t passed = std::min(period - PeriodOf(*block), kCounterBits);
  for (uint32_t i = 1; i < block->words.size(); ++i) {
    uint64_t word = block->words[i].load(std::memory_order_relaxed);
    for (uint32_t n = 0; n < passed; ++n) word = (word >> 1) & kLowBits;
    block->words[i].store(word, std::memory_order_relaxed);
  }
  const auto notes = static_cast<uint32_t>(block->words[0].load(std::memory_order_relaxed));
  block->words[0].store(uint64_t{period} << 32 | notes, std::memory_order_relaxed);
}

void FrequencySketch::CountNote(Block* block) noexcept {
  const uint64_t clock = block->words[0].load(std::memory_order_relaxed);
  const auto notes = static_cast<uint32_t>(clock) + 1;
  block->words[0].store((clock >> 32) << 32 | notes, std::memory_order_relaxed);
  if (notes % kNotesTold == 0) AdvanceClock();
}

void FrequencySketch::AdvanceClock() noexcept {
  const uint64_t period_notes = block_count_ * kNotesPerPeriod;
  const uint64_t before = notes_.fetch_add(kNotesTold, std::memory_order_relaxed);
  if (before / period_notes != (before + kNotesTold) / period_notes) {
    period_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace engine_race::l1
