// `bin/store dump`: what a closed store is made of. Changes nothing.
#ifndef HARNESS_TOOLS_STORE_DUMP_H_
#define HARNESS_TOOLS_STORE_DUMP_H_

#include <string>

namespace engine_race::harness {

// Prints the manifest and the fill and skew of the buckets. With `every_bucket` also prints a line
// for each bucket that has records. Returns the exit code.
int RunDump(const std::string& dir, bool every_bucket);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_DUMP_H_
