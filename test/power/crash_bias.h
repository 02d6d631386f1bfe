// Random draws, and which of the unsynced changes a loss of power takes.
#ifndef TEST_POWER_CRASH_BIAS_H_
#define TEST_POWER_CRASH_BIAS_H_

#include <cstdint>
#include <random>

namespace engine_race::test {

using Random = std::mt19937_64;

// A number in [0, bound).
inline uint64_t Below(Random* random, uint64_t bound) { return (*random)() % bound; }
inline bool Chance(Random* random, double p) {
  return static_cast<double>((*random)() >> 11) * 0x1p-53 < p;
}

// Which of the unsynced changes one power loss takes. Drawn for each, so that the likely, the
// extreme and the mixed ones all come up.
struct CrashBias {
  enum class Shape { kEach, kAllButOne, kOnlyNewest, kBefore };
  Shape shape = Shape::kEach;
  double keep = 1;              // kEach: the chance of every change
  uint64_t cut_id = 0;          // kBefore: changes with lower ids are kept
  double tear = 0;              // the chance that a kept change is torn
  double keep_name = 1;         // the chance of every creation and renaming
  double mapped_last = 1;       // the chance that a mapped sector is as it was last
  double mapped_synced = 0;     // and as it was at the last flush; a look between them otherwise
  bool allocate_zeros = false;  // written zeros take space

  static CrashBias KeepAll() { return CrashBias(); }
  static CrashBias KeepNone();
  static CrashBias Draw(Random* random, uint64_t end_id);
};

}  // namespace engine_race::test

#endif  // TEST_POWER_CRASH_BIAS_H_
