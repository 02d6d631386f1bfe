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
  return least;
}

uint32_t FrequencySketch::Note(uint64_t key) noexcept {
  const uint64_t hash = Hash(key);
  Block& block = *BlockOf(hash);
  const uint32_t before = Estimate(key);
  if (before == kMaxFrequency) return before;
  for (uint32_t row = 0; row < kRows; ++row) {
    const Counter counter = CounterOf(hash, row);
    std::atomic<uint64_t>& word = block.words[counter.word];
    const uint64_t seen = word.load(std::memory_order_relaxed);
    // Only the least are raised: the others count other keys, too.
    if (((seen >> counter.shift) & kMaxFrequency) == before) {
      word.store(seen + (uint64_t{1} << counter.shift), std::memory_order_relaxed);
    }
  }
  if (before < kInfrequent) {
    const uint64_t notes = block.words[0].load(std::memory_order_relaxed) + 1;
    block.words[0].store(notes, std::memory_order_relaxed);
    if (notes >= kSampleCount) Halve(&block);
  }
  return before + 1;
}

void FrequencySketch::Halve(Block* block) {
  constexpr uint64_t kLowBits = 0x7777777777777777;
  block->words[0].store(kSampleCount / 2, std::memory_order_relaxed);
  for (uint32_t i = 1; i < block->words.size(); ++i) {
    const uint64_t word = block->words[i].load(std::memory_order_relaxed);
    block->words[i].store((word >> 1) & kLowBits, std::memory_order_relaxed);
  }
}

}  // namespace engine_race::l1
