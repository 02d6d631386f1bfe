#include "engine_race/l1/frequency_sketch.h"

#include <algorithm>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

// Every access is relaxed: estimates order nothing.

Status FrequencySketch::Allocate(uint32_t id_count, const Placement& placement) {
  const uint32_t line_count = LineCount(id_count);
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(uint64_t{line_count} * sizeof(Line),
                                               /*huge_pages=*/true, &lines_, placement));
  line_count_ = line_count;
  return Status::Ok();
}

// The four counters of an id, each in a word of its own.
struct FrequencySketch::Counters {
  Counters(const Line& line, uint64_t hash) {
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kRows; ++row) {
      const Counter counter = CounterOf(hash, row);
      words[row] = line.words[counter.word].load(std::memory_order_relaxed);
      counts[row] = static_cast<uint32_t>(words[row] >> counter.shift) & kMaxFrequency;
      least = std::min(least, counts[row]);
    }
  }

  // Raises only the least counters, because the others count other ids too. A branch on which they
  // are would be mispredicted, so the other words are stored unchanged. Whatever other threads
  // store meanwhile, no counter exceeds its maximum.
  void RaiseLeast(Line* line, uint64_t hash) const {
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kRows; ++row) {
      const Counter counter = CounterOf(hash, row);
      const uint64_t one = counts[row] == least ? 1 : 0;
      line->words[counter.word].store(words[row] + (one << counter.shift),
                                      std::memory_order_relaxed);
    }
  }

  uint64_t words[kRows];
  uint32_t counts[kRows];
  uint32_t least = kMaxFrequency;
};

uint32_t FrequencySketch::PeriodOf(const Line& line) {
  return static_cast<uint32_t>(line.words[0].load(std::memory_order_relaxed) >> 32);
}

uint32_t FrequencySketch::Estimate(uint64_t id) const noexcept {
  const uint64_t hash = Hash(id);
  const Line& line = *LineOf(hash);
  const uint32_t passed = Period() - PeriodOf(line);
  return passed < kCounterBits ? Counters(line, hash).least >> passed : 0;
}

uint32_t FrequencySketch::Note(uint64_t id) noexcept {
  const uint64_t hash = Hash(id);
  Line* const line = LineOf(hash);
  const uint32_t period = Period();
  if (PeriodOf(*line) != period) [[unlikely]] {
    Age(line, period);
  }
  const Counters counters(*line, hash);
  if (counters.least == kMaxFrequency) return kMaxFrequency;
  CountNote(line);
  counters.RaiseLeast(line, hash);
  ENGINE_RACE_ASSERT(counters.least < kMaxFrequency);
  return counters.least + 1;
}

// Halves the counters of the line once for each period that has passed.
void FrequencySketch::Age(Line* line, uint32_t period) noexcept {
  constexpr uint64_t kLowBits = 0x7777777777777777;
  const uint32_t passed = std::min(period - PeriodOf(*line), kCounterBits);
  for (uint32_t i = 1; i < line->words.size(); ++i) {
    uint64_t word = line->words[i].load(std::memory_order_relaxed);
    for (uint32_t n = 0; n < passed; ++n) word = (word >> 1) & kLowBits;
    line->words[i].store(word, std::memory_order_relaxed);
  }
  const auto notes = static_cast<uint32_t>(line->words[0].load(std::memory_order_relaxed));
  line->words[0].store(uint64_t{period} << 32 | notes, std::memory_order_relaxed);
}

void FrequencySketch::CountNote(Line* line) noexcept {
  const uint64_t clock = line->words[0].load(std::memory_order_relaxed);
  const auto notes = static_cast<uint32_t>(clock) + 1;
  line->words[0].store((clock >> 32) << 32 | notes, std::memory_order_relaxed);
  if (notes % kNotesTold == 0) AdvanceClock();
}

void FrequencySketch::AdvanceClock() noexcept {
  const uint64_t period_notes = line_count_ * kNotesPerPeriod;
  const uint64_t before = notes_.fetch_add(kNotesTold, std::memory_order_relaxed);
  if (before / period_notes != (before + kNotesTold) / period_notes) {
    period_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace engine_race::l1
