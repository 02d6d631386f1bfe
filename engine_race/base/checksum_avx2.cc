#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

#include "engine_race/base/checksum_kernels.h"

namespace engine_race {

uint64_t HashValueAvx2(const void* value, size_t size) { return XXH3_64bits(value, size); }

}  // namespace engine_race
