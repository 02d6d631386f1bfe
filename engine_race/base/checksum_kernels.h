// The kernels of HashValue beside the portable one, one translation unit each, so that each is
// compiled for its own instruction set. Only checksum.cc, which asks the CPU first, may call them.
#ifndef ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_
#define ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine_race/base/checksum.h"
#include "engine_race/base/cpu_features.h"

namespace engine_race {

uint64_t HashValueAvx2(const void* value, size_t size);

// The kernels that such a CPU can run, the best first. Ends as ValueHashKernels does.
using ValueHashTable = std::array<ValueHashKernel, 3>;
ValueHashTable ValueHashesOf(const CpuFeatures& cpu);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_
