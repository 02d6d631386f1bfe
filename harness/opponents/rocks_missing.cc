#include "harness/opponents/rocks.h"

namespace harness {

MakeRocksPointsFn RocksPointsMaker() { return nullptr; }
MakeRocksFn RocksMaker() { return nullptr; }
MakeRocksRecordsFn RocksRecordsMaker() { return nullptr; }

}  // namespace harness
