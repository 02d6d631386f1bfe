// Estimates how often each block and each value was used lately. Each has a number, its id, and one
// cache line for it.
//
// An id has four counters of four bits in its line, which it shares with other ids. The least of
// the four is its frequency. So an id looks more frequent than it is only if it shares all four
// counters. Frequencies end at 15.
//
// Time is counted in notes. After a fixed number of notes for each frequent id, a period ends and
// every frequency is halved. A line is halved when it is next noted in. So ids that are not used
// any more are forgotten, and frequencies of different lines can be compared. An id that is used
// all the time stays at 15, and its line is then only read.
//
// Thread-safe: two threads that note at the same time may lose a count, and nothing else.
#ifndef ENGINE_RACE_L1_FREQUENCY_SKETCH_H_
#define ENGINE_RACE_L1_FREQUENCY_SKETCH_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/touch.h"

namespace engine_race::l1 {

class FrequencySketch {
 public:
  static constexpr uint32_t kMaxFrequency = 15;

  // Makes room to tell `id_count` frequent ids from all others. To be called once. kOutOfMemory.
  Status Allocate(uint32_t id_count, const Placement& placement = {});

  // Notes a use of `id` and returns its frequency, this use included.
  uint32_t Note(uint64_t id) noexcept;
  uint32_t Estimate(uint64_t id) const noexcept;
  // Fetches the line of `id` for Note or Estimate, by a load that nothing waits for. A prefetch
  // instruction would be dropped if the processor had to walk the page table.
  void Prefetch(uint64_t id) const {
    Touch(LineOf(Hash(id))->words[0].load(std::memory_order_relaxed));
  }

  uint64_t memory_bytes() const { return MemoryBytes(line_count_); }
  static uint64_t MemoryBytes(uint32_t id_count) {
    return uint64_t{LineCount(id_count)} * sizeof(Line);
  }

 private:
  static constexpr uint32_t kRows = 4;
  static constexpr uint32_t kCounterBits = 4;
  // From this count on few ids share counters, and a false second sighting is rare.
  static constexpr uint32_t kMinLineCount = 256;
  // How many notes for each frequent id make a period.
  static constexpr uint64_t kNotesPerPeriod = 16;
  // A line adds its notes to the clock when it has this many.
  static constexpr uint64_t kNotesTold = 8;

  // Word 0 has the period that the line was aged to (32 bits, above) and its number of notes (32
  // bits). Then come the four rows of counters: the first has 16, the others have 32.
  struct alignas(64) Line {
    std::array<std::atomic<uint64_t>, 8> words;
  };
  static_assert(sizeof(Line) == 64);
  struct Counter {
    uint32_t word;
    uint32_t shift;
  };

  static uint32_t LineCount(uint32_t id_count) {
    return id_count < kMinLineCount ? kMinLineCount : id_count;
  }
  static uint64_t Hash(uint64_t id) {
    uint64_t hash = (id ^ (id >> 32)) * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9;
    return hash ^ (hash >> 32);
  }
  Line* LineOf(uint64_t hash) const {
    const auto line =
        static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * line_count_) >> 64);
    return reinterpret_cast<Line*>(lines_.data()) + line;
  }
  static Counter CounterOf(uint64_t hash, uint32_t row) {
    // The high bits of the hash choose the line, five low bits each counter.
    const auto bits = static_cast<uint32_t>(hash >> (5 * row)) & 31;
    const uint32_t word = row == 0 ? 1 : 2 * row + (bits >> 4);
    ENGINE_RACE_ASSERT(word > 0 && word < 8);
    return {word, (bits & 15) * 4};
  }
  uint32_t Period() const {
    return period_.load(std::memory_order_relaxed);  // estimates order nothing
  }
  struct Counters;
  // The period that the line was aged to.
  static uint32_t PeriodOf(const Line& line);
  static void Age(Line* line, uint32_t period) noexcept;
  void CountNote(Line* line) noexcept;
  void AdvanceClock() noexcept;

  Region lines_;
  uint32_t line_count_ = 0;
  // Read with every note, written once in a period.
  alignas(64) std::atomic<uint32_t> period_{0};
  alignas(64) std::atomic<uint64_t> notes_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FREQUENCY_SKETCH_H_
