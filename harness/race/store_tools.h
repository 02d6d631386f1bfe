// What bin/race does with a closed store besides racing: verify it, copy it, and say what is in it.
//
// None of them changes the store, and all refuse one that somebody has open.
#ifndef HARNESS_RACE_STORE_TOOLS_H_
#define HARNESS_RACE_STORE_TOOLS_H_

#include <string>
#include <vector>

namespace harness {

// Prints every bad record, then the sum. Exit codes: 0 all is well, 1 something is bad, 2 the store
// could not be read.
int VerifyStoreIn(const std::string& dir);

// Copies the store into `to`, which must be missing or empty, its values onto `paths`, or into `to`
// as well when there are none; prints every bad record, then the sum. Exit codes: 0 there is a
// copy, 1 something is bad, 2 the store could not be read or the copy not be made. There is no copy
// after 1 and 2.
int CopyStoreIn(const std::string& dir, const std::string& to,
                const std::vector<std::string>& paths);

// Prints the manifest, how full the buckets are and how evenly; with `every_bucket` a line for each
// that holds records. Exit codes: 0, or 2 when the store could not be read.
int DumpStoreIn(const std::string& dir, bool every_bucket);

}  // namespace harness

#endif  // HARNESS_RACE_STORE_TOOLS_H_
