// The work of the crash trial's child processes on the store, until they are killed.
//
// Each function runs in a forked child and returns its exit code: 0 when nothing was wrong, 1 when
// the report holds a violation.
#ifndef HARNESS_CRASH_CHILD_H_
#define HARNESS_CRASH_CHILD_H_

#include <cstdint>
#include <string>

#include "engine_race/base/options.h"
#include "harness/crash/check.h"
#include "harness/crash/oracle.h"
#include "harness/crash/shape.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

struct ChildPlan {
  std::string dir;
  Options options;
  uint64_t seed = 0;
  uint32_t writer_count = 1;
  uint32_t reader_count = 0;
  // Pause between two writes of a thread, 0 for none.
  uint32_t pace_us = 0;
  // Pause between two Syncs, 0 for none of them.
  uint32_t sync_pace_us = 0;
  // Read a key before the first write: the index is opened then, and its buckets are read beside
  // the writes.
  bool index_first = false;
  // The writer writes for this time before its first read, and as long again before it closes.
  uint32_t write_ms = 0;
  // The most records that the writers of this child write together; then they rest.
  uint64_t max_record_count = 0;
};

// Opens, writes, reads beside the writes, closes.
int RunWriter(const ChildPlan& plan, const Trial& trial);
// Opens, compares every key by Read and by Range, closes.
int RunVerifier(const ChildPlan& plan, const Trial& trial);
// Opens a store that another process holds; the opening must be refused.
int RunSecondOpener(const ChildPlan& plan, const Trial& trial);

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_CHILD_H_
