// The kernels of HashValue, one translation unit each, so that each is compiled for its own
// instruction set. Only checksum.cc, which asks the CPU first, may call them.
#ifndef ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_
#define ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_

#include <cstdint>

namespace engine_race {

uint64_t HashValueAvx2(const void* value);
uint64_t HashValueAvx512(const void* value);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CHECKSUM_KERNELS_H_
