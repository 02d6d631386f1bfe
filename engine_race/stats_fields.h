// The numbers of StoreStats by name: what each is called in text, in the stats file and in
// Prometheus, and what it means. Also the numbers that counters of calls and the log give.
//
// Constant or stateless; every call from any thread.
#ifndef ENGINE_RACE_STATS_FIELDS_H_
#define ENGINE_RACE_STATS_FIELDS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "engine_race/base/op_counters.h"
#include "engine_race/base/op_stats.h"
#include "engine_race/store_stats.h"

namespace engine_race {

class BucketLog;

struct StatsField {
  std::string_view name;  // of the member of StoreStats
  // Of Prometheus, without the prefix. Fields of one metric differ in the label, and stand one
  // after another in the table.
  std::string_view metric;
  std::string_view label;  // name and value, as in `call="read"`; or empty
  std::string_view help;   // of the metric; empty but for its first field
  // One unit of the number in Prometheus' base units: seconds, bytes or ones.
  double unit;
  uint64_t (*get)(const StoreStats& stats);
  // Null for a number that is made of others.
  void (*set)(uint64_t value, StoreStats* stats);

  // A number that only grows while the store is open.
  bool is_counter() const { return metric.ends_with("_total"); }
  bool is_bytes() const { return name.ends_with("_bytes"); }
};

// Every number but failures by code, latencies and the key range.
std::span<const StatsField> StatsFields();

// Sets the counts of calls and failures. Each counter is summed once. So the sum of reads and the
// count of those that found nothing fit together while threads count.
void SetCounts(const OpCounters& counters, StoreStats* to);
// Sets the geometry, and the figures of the log.
void SetLogFigures(const BucketLog& log, StoreStats* to);

// Sets what this process has read and written, of any file.
void SetProcessFigures(StoreStats* to);
// Sets how long the calls took, and the writes and flushes of the log.
void SetLatencies(const OpStats& stats, const BucketLog& log, StoreLatencies* to);

// "read", "multi_read", ..., of every kind in its order.
std::string_view LatencyKindName(LatencyKind kind);

}  // namespace engine_race

#endif  // ENGINE_RACE_STATS_FIELDS_H_
