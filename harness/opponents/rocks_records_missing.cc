#include "harness/opponents/rocks_records.h"

namespace harness {

MakeRocksRecordsFn RocksRecordsMaker() { return nullptr; }

}  // namespace harness
