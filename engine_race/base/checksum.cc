#include "engine_race/base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine_race/base/checksum_kernels.h"
#include "engine_race/base/cpu_features.h"

namespace engine_race {
namespace {

uint64_t HashValueBaseline(const void* value, size_t size) { return XXH3_64bits(value, size); }

const ValueHashTable& Kernels() {
  static const ValueHashTable kernels = ValueHashesOf(RunningCpuFeatures());
  return kernels;
}

}  // namespace

// No kernel of 512 bits: a core that multiplies such words now and then runs everything else
// slower, on many CPUs. On a Cascade Lake such a kernel hashed a value in 117 ns, and AVX2 in 159
// ns. But all other code of the thread took 15% more time.
ValueHashTable ValueHashesOf(const CpuFeatures& cpu) {
  ValueHashTable kernels{};
  size_t count = 0;
  if (RunsAvx2Kernels(cpu)) kernels[count++] = {"avx2", HashValueAvx2};
  kernels[count++] = {"baseline", HashValueBaseline};
  return kernels;
}

uint64_t Hash64(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t HashValue(const void* value, size_t size) {
  static uint64_t (*const hash)(const void*, size_t) = Kernels().front().hash;
  return hash(value, size);
}

const ValueHashKernel* ValueHashKernels() { return Kernels().data(); }

}  // namespace engine_race
