// The counts of a store's calls, and their latencies.
//
// Owned by the door; the rooms that serve calls count in it. Thread-safe as its members are.
#ifndef ENGINE_RACE_BASE_OP_STATS_H_
#define ENGINE_RACE_BASE_OP_STATS_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/latency_recorder.h"
#include "engine_race/base/op_counters.h"
#include "engine_race/base/status.h"

namespace engine_race {

struct OpStats {
  explicit OpStats(bool latencies)
      : reads(latencies),
        multi_reads(latencies),
        async_reads(latencies),
        writes(latencies),
        ranges(latencies),
        syncs(latencies) {}

  // Counts one answer of a call or of a key. `counter` is that of its success. For reads it counts
  // found keys, and kNotFound then counts in the counter of absent keys. Every other code is a
  // failure.
  void Count(OpCounter counter, Code code) {
    if (code == Code::kOk) [[likely]] {
      counters.Add(counter);
    } else {
      CountOther(counter, code);
    }
  }

  // Counts the keys of a MultiRead by their codes: code_of(i) is that of the i-th one.
  template <typename CodeOf>
  void CountKeys(size_t count, const CodeOf& code_of) {
    uint64_t ok_count = 0;
    for (size_t i = 0; i < count; ++i) {
      const Code code = code_of(i);
      if (code == Code::kOk) [[likely]] {
        ++ok_count;
      } else {
        Count(OpCounter::kMultiReadKeysFound, code);
      }
    }
    counters.Add(OpCounter::kMultiReadKeysFound, ok_count);
  }
  // Records of batches count as writes and deletions.
  void CountBatch(uint64_t put_count, uint64_t delete_count) {
    if (put_count != 0) counters.Add(OpCounter::kWrites, put_count);
    if (delete_count != 0) counters.Add(OpCounter::kDeletes, delete_count);
  }

  OpCounters counters;
  LatencyRecorder reads;
  LatencyRecorder multi_reads;  // whole calls
  LatencyRecorder async_reads;  // from ReadAsync until the function is called
  LatencyRecorder writes;       // deletions included
  LatencyRecorder ranges;
  LatencyRecorder syncs;

 private:
  __attribute__((noinline)) void CountOther(OpCounter counter, Code code) {
    if (code == Code::kNotFound && counter == OpCounter::kReadsFound) {
      counters.Add(OpCounter::kReadsNotFound);
    } else if (code == Code::kNotFound && counter == OpCounter::kMultiReadKeysFound) {
      counters.Add(OpCounter::kMultiReadKeysNotFound);
    } else if (code == Code::kNotFound && counter == OpCounter::kAsyncReadsFound) {
      counters.Add(OpCounter::kAsyncReadsNotFound);
    } else {
      counters.AddError(code);
    }
  }
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_OP_STATS_H_
