// GCC 12 warns about the deliberately undefined registers inside its own AVX-512 header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

#include "engine_race/base/checksum_kernels.h"
#include "engine_race/base/options.h"

namespace engine_race {

uint64_t HashValueAvx512(const void* value) { return XXH3_64bits(value, kValueBytes); }

}  // namespace engine_race
