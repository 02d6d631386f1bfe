// How often each key was asked for lately, about, in one cache line a key.
//
// A key belongs to a block of 64 bytes and has four counters of four bits in it; the least of them
// is its frequency, so that only keys that share all four with others look more frequent than they
// are. Frequencies end at 15. Time is counted in notes; after so many of them per frequent key
// every frequency is halved, each block when it is next noted in: what is not asked for any more is
// forgotten as others come, and blocks can be compared whatever else is in them. What is asked for
// all the time saturates and is then only read, not written.
//
// Thread-safe: two who note at the same time may lose a count, and nothing else.
#ifndef ENGINE_RACE_HOT_FREQUENCY_SKETCH_H_
#define ENGINE_RACE_HOT_FREQUENCY_SKETCH_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/key_words.h"

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

class FrequencySketch {
 public:
  static constexpr uint32_t kMaxFrequency = 15;

  // For telling `key_count` frequent keys from all others. Once. kOutOfMemory.
  Status Allocate(uint32_t key_count, const Placement& placement = {});

  // Notes that `key` was asked for; how often that was, with this time.
  uint32_t Note(uint64_t key) noexcept;
  uint32_t Estimate(uint64_t key) const noexcept;
  // Fetches what the two above look at. By a load that nobody waits for: the instruction for it is
  // dropped where it would have to walk the page table.
  void Prefetch(uint64_t key) const {
    Touch(BlockOf(Hash(key))->words[0].load(std::memory_order_relaxed));
  }

  uint64_t memory_bytes() const { return MemoryBytes(block_count_); }
  static uint64_t MemoryBytes(uint32_t key_count) {
    return uint64_t{BlockCount(key_count)} * sizeof(Block);
  }

 private:
  static constexpr uint32_t kRows = 4;
  static constexpr uint32_t kCounterBits = 4;
  // So few keys share counters that a false second sighting is rare.
  static constexpr uint32_t kMinBlocks = 256;
  // Notes per frequent key between two halvings.
  static constexpr uint64_t kNotesPerPeriod = 16;
  // A block tells the clock of its notes by so many.
  static constexpr uint64_t kNotesTold = 8;

  // Words: the period that the block was aged to (32 bits) above the number of notes (32 bits),
  // then the rows: the first of 16 counters, the others of 32.
  struct alignas(64) Block {
    std::array<std::atomic<uint64_t>, 8> words;
  };
  static_assert(sizeof(Block) == 64);
  struct Counter {
    uint32_t word;
    uint32_t shift;
  };

  static uint32_t BlockCount(uint32_t key_count) {
    return key_count < kMinBlocks ? kMinBlocks : key_count;
  }
  static uint64_t Hash(uint64_t key) {
    uint64_t hash = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9;
    return hash ^ (hash >> 32);
  }
  Block* BlockOf(uint64_t hash) const {
    const auto block =
        static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * block_count_) >> 64);
    return reinterpret_cast<Block*>(blocks_.data()) + block;
  }
  static Counter CounterOf(uint64_t hash, uint32_t row) {
    // The block is told by the high bits, the counters by five low ones each.
    const auto bits = static_cast<uint32_t>(hash >> (5 * row)) & 31;
    const uint32_t word = row == 0 ? 1 : 2 * row + (bits >> 4);
    ENGINE_RACE_ASSERT(word > 0 && word < 8);
    return {word, (bits & 15) * 4};
  }
  uint32_t Period() const {
    return period_.load(std::memory_order_relaxed);  // estimates order nothing
  }
  struct Counters;
  // That the block was last aged in.
  static uint32_t PeriodOf(const Block& block);
  static void Age(Block* block, uint32_t period) noexcept;
  void CountNote(Block* block) noexcept;
  void AdvanceClock() noexcept;

  Region blocks_;
  uint32_t block_count_ = 0;
  // Read with every note, written once a period.
  alignas(64) std::atomic<uint32_t> period_{0};
  alignas(64) std::atomic<uint64_t> notes_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_HOT_FREQUENCY_SKETCH_H_
