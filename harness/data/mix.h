// The mixer of the programs' key streams, values and random choices.
//
// Those that mix are bijections of their word, so distinct inputs stay distinct.
#ifndef HARNESS_DATA_MIX_H_
#define HARNESS_DATA_MIX_H_

#include <bit>
#include <cstdint>

namespace engine_race::harness {

// The finalizer of SplitMix64.
inline constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The `index`-th word of the stream of `seed`.
inline constexpr uint64_t MixAt(uint64_t seed, uint64_t index) {
  return Mix64(Mix64(seed) + (index + 1) * 0x9e3779b97f4a7c15);
}

// Mixed into a seed, it gives the stream of the keys that a load reads.
inline constexpr uint64_t kReadStream = 0x72656164;

// A bijection of words of 54 bits: the bits of a key below a 10-bit prefix.
inline constexpr uint64_t Mix54(uint64_t x) {
  constexpr uint64_t kMask = (uint64_t{1} << 54) - 1;
  x = ((x ^ (x >> 27)) * 0xbf58476d1ce4e5b9) & kMask;
  x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & kMask;
  return x ^ (x >> 27);
}

// A bijection of [0, bound), a different one for each seed; `bound` is not 0. It walks along a
// cycle of a bijection of as many bits as `bound` needs: less than two steps on average.
inline constexpr uint64_t MixBelow(uint64_t seed, uint64_t x, uint64_t bound) {
  const int bits = bound < 3 ? 1 : 64 - std::countl_zero(bound - 1);
  const uint64_t mask = ~uint64_t{0} >> (64 - bits);
  const int half = (bits + 1) / 2;
  const uint64_t add = Mix64(seed);
  do {
    x = ((x + add) * 0x9e3779b97f4a7c15) & mask;
    x = ((x ^ (x >> half)) * 0xbf58476d1ce4e5b9) & mask;
    x = ((x ^ (x >> half)) * 0x94d049bb133111eb) & mask;
    x ^= x >> half;
  } while (x >= bound);
  return x;
}

// `word` as a fraction of [0, 1).
inline constexpr double AsFraction(uint64_t word) {
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

// `word` spread over [0, bound).
inline constexpr uint64_t AsBelow(uint64_t word, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

}  // namespace engine_race::harness

#endif  // HARNESS_DATA_MIX_H_
