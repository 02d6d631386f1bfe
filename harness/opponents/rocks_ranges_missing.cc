#include "harness/opponents/rocks_ranges.h"

namespace harness {

MakeRocksFn RocksMaker() { return nullptr; }

}  // namespace harness
