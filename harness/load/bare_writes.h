// The bare loop that a Write is compared with. It copies values into mapped groups, and each thread
// writes its full groups to a file. It keeps no keys, checks nothing and takes no lock.
//
// RunBareWrites starts its threads and returns when they have ended; one call at a time.
#ifndef HARNESS_LOAD_BARE_WRITES_H_
#define HARNESS_LOAD_BARE_WRITES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "harness/load/store_runs.h"

namespace harness {

struct BareWrites {
  std::string dir;  // an empty directory; the files stay in it
  uint32_t thread_count = 64;
  uint64_t record_count = 0;
  uint32_t group_bytes = 128 * 1024;
  // Groups that a thread fills at once; it spreads its records over them at random. With one group,
  // every value is copied to memory that is still in the cache.
  uint32_t groups_per_thread = 1;
};

// Makes the record that the bare loop and the store write. Puts the index, spread over 64 bits,
// before the other bytes of `value`, which has kValueSize bytes. Costs only some nanoseconds.
uint64_t StampRecord(uint64_t index, char* value);

// Runs `thread_count` threads. Each makes a function first and then calls function(key, value) for
// each of its records. Only the records' CPU time counts. When a function returns false, its thread
// ends and the run counts nothing.
using WriteFn = std::function<bool(uint64_t key, const char* value)>;
using MakeWriteFn = std::function<WriteFn(uint32_t thread)>;
TimedRun RunStampedWrites(uint32_t thread_count, uint64_t record_count,
                          const MakeWriteFn& make_worker);

// *error says why a run counts nothing.
TimedRun RunBareWrites(const BareWrites& loop, std::string* error);

}  // namespace harness

#endif  // HARNESS_LOAD_BARE_WRITES_H_
