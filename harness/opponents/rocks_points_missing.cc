#include "harness/opponents/rocks_points.h"

namespace harness {

MakeRocksPointsFn RocksPointsMaker() { return nullptr; }

}  // namespace harness
