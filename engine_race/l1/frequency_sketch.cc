#include "engine_race/l1/frequency_sketch.h"

#include <algorithm>

namespace engine_race::l1 {

// All of it relaxed: estimates that order nothing.

Status FrequencySketch::Allocate(uint32_t key_count) {
  const uint32_t block_count = BlockCount(key_count);
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(uint64_t{block_count} * sizeof(Block), /*huge_pages=*/true, &blocks_));
  block_count_ = block_count;
  return Status::Ok();
}

uint32_t FrequencySketch::Estimate(uint64_t key) const noexcept {
  const uint64_t hash = Hash(key);
  const Block& block = *BlockOf(hash);
  uint32_t least = kMaxFrequency;
  for (uint32_t row = 0; row < kRows; ++row) {
    const Counter counter = CounterOf(hash, row);
    const uint64_t word = block.words[counter.word].load(std::memory_order_relaxed);
    least = std::min(least, static_cast<uint32_t>(word >> counter.shift) & kMaxFrequency);
  }
  const uint64_t clock = block.words[0].load(std::memory_order_relaxed);
  const uint32_t passed = Period() - static_cast<uint32_t>(clock >> 32);
  return passed < kCounterBits ? least >> passed : 0;
}

uint32_t FrequencySketch::Note(uint64_t key) noexcept {
  const uint64_t hash = Hash(key);
  Block& block = *BlockOf(hash);
  const uint32_t before = Estimate(key);
  if (before == kMaxFrequency) return before;
  CountNote(&block);
  for (uint32_t row = 0; row < kRows; ++row) {
    const Counter counter = CounterOf(hash, row);
    std::atomic<uint64_t>& word = block.words[counter.word];
    const uint64_t seen = word.load(std::memory_order_relaxed);
    // Only the least are raised: the others count other keys, too. Whatever others write at the
    // same time, none is raised beyond its end.
    if (((seen >> counter.shift) & kMaxFrequency) == before) {
      word.store(seen + (uint64_t{1} << counter.shift), std::memory_order_relaxed);
    }
  }
  return before + 1;
}

void FrequencySketch::CountNote(Block* block) noexcept {
  constexpr uint64_t kLowBits = 0x7777777777777777;
  const uint64_t clock = block->words[0].load(std::memory_order_relaxed);
  const uint32_t period = Period();
  uint32_t passed = period - static_cast<uint32_t>(clock >> 32);
  if (passed != 0) [[unlikely]] {
    passed = std::min(passed, kCounterBits);
    for (uint32_t i = 1; i < block->words.size(); ++i) {
      uint64_t word = block->words[i].load(std::memory_order_relaxed);
      for (uint32_t n = 0; n < passed; ++n) word = (word >> 1) & kLowBits;
      block->words[i].store(word, std::memory_order_relaxed);
    }
  }
  const uint32_t notes = static_cast<uint32_t>(clock) + 1;
  block->words[0].store(uint64_t{period} << 32 | notes, std::memory_order_relaxed);
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
