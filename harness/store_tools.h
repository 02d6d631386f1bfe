// What bin/race does with a closed store besides racing: verify it, and say what is in it.
//
// Both change nothing, and refuse a store that somebody has open.
#ifndef HARNESS_STORE_TOOLS_H_
#define HARNESS_STORE_TOOLS_H_

#include <string>

namespace harness {

// Prints every bad record, then the sum. Exit codes: 0 all is well, 1 something is bad, 2 the store
// could not be read.
int VerifyStoreIn(const std::string& dir);

// Prints the manifest, how full the buckets are and how evenly; with `every_bucket` a line for each
// that holds records. Exit codes: 0, or 2 when the store could not be read.
int DumpStoreIn(const std::string& dir, bool every_bucket);

}  // namespace harness

#endif  // HARNESS_STORE_TOOLS_H_
