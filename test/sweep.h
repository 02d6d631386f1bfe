// How much of a sweep one run of the tests has: a part that is drawn anew each time, or all of it.
//
// A sweep tries a fault at each call, or a random case of each seed. ENGINE_TEST_FULL=1 asks for
// whole sweeps, as `make nightly` does. Other runs take a part whose start depends on SweepSeed(),
// so that each case has its turn. SWEEP_SEED repeats the part of an earlier run.
#ifndef TEST_SWEEP_H_
#define TEST_SWEEP_H_

#include <cstdint>
#include <iostream>
#include <random>

#include "test/test_util.h"

namespace engine_race::test {

inline bool IsFullRun() { return FromEnvironment("ENGINE_TEST_FULL", 0) != 0; }

// Drawn once for each process and then printed. Children that are forked later have it too.
inline uint64_t SweepSeed() {
  static const uint64_t seed = [] {
    const uint64_t drawn = FromEnvironment("SWEEP_SEED", std::random_device()());
    std::cout << "SWEEP_SEED=" << drawn << std::endl;
    return drawn;
  }();
  return seed;
}

// How many of `count` random cases a run has when it has one of `parts` parts.
inline uint64_t PartOf(uint64_t count, uint64_t parts) {
  return IsFullRun() ? count : count / parts;
}

// Whether a run that has one of `parts` parts of some cases has number `number` of them.
inline bool IsInPart(uint64_t number, uint64_t parts) {
  return IsFullRun() || (number + SweepSeed()) % parts == 0;
}

// The cases 1, 2, ... of a sweep: each `stride`-th in a full run, each (stride * parts)-th in
// another.
struct SweepSteps {
  SweepSteps(uint64_t full_stride, uint64_t parts)
      : stride(full_stride * (IsFullRun() ? 1 : parts)), first(1 + SweepSeed() % stride) {}

  uint64_t stride;
  uint64_t first;
};

}  // namespace engine_race::test

#endif  // TEST_SWEEP_H_
