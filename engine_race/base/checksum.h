// Checksums and hashes: XXH3 from the xxHash library, its kernel chosen for the running CPU.
//
// Pure functions, thread-safe.
#ifndef ENGINE_RACE_BASE_CHECKSUM_H_
#define ENGINE_RACE_BASE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

namespace engine_race {

// XXH3 (64 bits) of `size` bytes, the same on every CPU.
uint64_t Hash64(const void* data, size_t size, uint64_t seed);

// Hash64 of a value with seed 0: the hot path, 0.1 to 0.3 us for 4 KiB.
uint64_t HashValue(const void* value, size_t size);

// The kernels behind HashValue, for the tests that compare them. Null where the CPU lacks one.
struct ValueHashKernel {
  const char* name;
  uint64_t (*hash)(const void* value, size_t size);
};
// Ends with an entry whose name is null; the first is the one in use.
const ValueHashKernel* ValueHashKernels();

// 64x64 -> 128 bit multiply, folded: a fast mix of two words.
inline uint64_t MixWords(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CHECKSUM_H_
