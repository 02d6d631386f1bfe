#include "engine_race/base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "engine_race/base/checksum_kernels.h"
#include "engine_race/base/options.h"

namespace engine_race {
namespace {

uint64_t HashValueBaseline(const void* value) { return XXH3_64bits(value, kValueBytes); }

using KernelTable = std::array<ValueHashKernel, 4>;

KernelTable FindKernels() {
  KernelTable kernels{};
  size_t count = 0;
  // xgetbv is part of what __builtin_cpu_supports asks, so a system that does not save the wide
  // registers answers no.
  if (__builtin_cpu_supports("avx512f")) kernels[count++] = {"avx512", HashValueAvx512};
  if (__builtin_cpu_supports("avx2")) kernels[count++] = {"avx2", HashValueAvx2};
  kernels[count++] = {"baseline", HashValueBaseline};
  return kernels;
}

const KernelTable& Kernels() {
  static const KernelTable kernels = FindKernels();
  return kernels;
}

}  // namespace

uint64_t Hash64(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t HashValue(const void* value) {
  static uint64_t (*const hash)(const void*) = Kernels().front().hash;
  return hash(value);
}

const ValueHashKernel* ValueHashKernels() { return Kernels().data(); }

}  // namespace engine_race
