#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

#include "engine_race/base/checksum_kernels.h"
#include "engine_race/base/options.h"

namespace engine_race {

uint64_t HashValueAvx2(const void* value) { return XXH3_64bits(value, kValueBytes); }

}  // namespace engine_race
