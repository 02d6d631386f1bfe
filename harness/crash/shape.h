// The shape of one trial store: its keys, how writers pick them, and its geometry.
//
// Everything follows from a seed. Plain values.
#ifndef HARNESS_CRASH_SHAPE_H_
#define HARNESS_CRASH_SHAPE_H_

#include <cstdint>
#include <random>
#include <string>

#include "engine_race/base/options.h"

namespace engine_race::crash {

using Rng = std::mt19937_64;

// Uniform in [low, high].
uint64_t Uniform(Rng& rng, uint64_t low, uint64_t high);
// In [low, high], each power of two as likely as the next; low > 0.
uint64_t LogUniform(Rng& rng, uint64_t low, uint64_t high);
// True with this probability.
bool Chance(Rng& rng, double probability);

enum class KeyChoice { kUniform, kSkewed, kBoth };
enum class GeometryChoice { kTiny, kMixed };
// Of the index: paged in every opening, or in some.
enum class IndexChoice { kPaged, kMixed };

struct Shape {
  uint64_t seed = 0;
  uint32_t key_count = 0;
  // Most keys share one 16-bit prefix, and a few are written very often.
  bool skewed = false;
  // With `skewed`: the crowded prefix is 0 and its keys are 0, 1, 2...
  bool sequential = false;
  uint32_t hot_key_count = 0;
  uint32_t delete_permille = 0;
  IndexChoice index = IndexChoice::kMixed;
  // Only the geometry; DrawOptions chooses the rest anew for each opening.
  Options geometry;

  std::string ToString() const;
};

Shape MakeShape(Rng& rng, KeyChoice keys, GeometryChoice geometry, IndexChoice index,
                uint32_t max_key_count);

// Key number `index` of the shape.
uint64_t KeyAt(const Shape& shape, uint32_t index);

// Draws the key that a writer writes next.
uint32_t PickKey(const Shape& shape, Rng& rng);

// The shape's geometry with tuning drawn for one opening: budget, backend, verification, syncs, and
// whether the index is paged.
Options DrawOptions(const Shape& shape, Rng& rng);

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_SHAPE_H_
