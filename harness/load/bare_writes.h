// The bare loop that a Write is held against: values copied into mapped groups, full groups written
// to a file a thread. No keys are kept, nothing is checked, and no lock is taken.
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
  std::string dir;  // empty; the files stay there
  uint32_t thread_count = 64;
  uint64_t record_count = 0;
  uint32_t group_bytes = 128 * 1024;
  // Groups that a thread fills at once, its records spread over them at random. With one, every
  // value is copied to memory that is still in the cache.
  uint32_t groups_per_thread = 1;
};

// The record that both loops write: its number spread over 64 bits, in front of bytes that stay.
// `value` has kValueSize bytes. Costs some nanoseconds, so that it hides nothing.
uint64_t StampRecord(uint64_t index, char* value);

// Runs make_worker's functions in `thread_count` threads, one call a record: function(key, value).
// Each thread makes its own function first. The CPU time is that of the records alone. A false
// answer ends its thread, and the run counts nothing.
using WriteFn = std::function<bool(uint64_t key, const char* value)>;
using MakeWriteFn = std::function<WriteFn(uint32_t thread)>;
TimedRun RunStampedWrites(uint32_t thread_count, uint64_t record_count,
                          const MakeWriteFn& make_worker);

// *error says why a run counts nothing.
TimedRun RunBareWrites(const BareWrites& loop, std::string* error);

}  // namespace harness

#endif  // HARNESS_LOAD_BARE_WRITES_H_
