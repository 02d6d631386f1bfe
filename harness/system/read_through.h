// Reads every file of a directory once, past the page cache, so that caches behind the device hold
// its files as far as they can. Hosts of virtual machines have such caches. Of two stores they hold
// rather the one that was written last.
//
// Stateless.
#ifndef HARNESS_SYSTEM_READ_THROUGH_H_
#define HARNESS_SYSTEM_READ_THROUGH_H_

#include <cstdint>
#include <string>

namespace harness {

// Gives the bytes that were read. A file that cannot be read is left out, and so are the bytes
// behind the last whole MiB of each. The order is that of the directory.
uint64_t ReadThrough(const std::string& dir);

}  // namespace harness

#endif  // HARNESS_SYSTEM_READ_THROUGH_H_
