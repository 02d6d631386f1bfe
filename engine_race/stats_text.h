// Stats as text: for people, and in the text exposition format 0.0.4 of Prometheus.
//
// Stateless; every call from any thread.
#ifndef ENGINE_RACE_STATS_TEXT_H_
#define ENGINE_RACE_STATS_TEXT_H_

#include <span>
#include <string>
#include <utility>

#include "engine_race/base/status.h"
#include "engine_race/store_stats.h"

namespace engine_race {

// A line for each number, and one for each kind of call whose latencies were measured.
std::string StatsText(const StoreStats& stats, const StoreLatencies& latencies = {});

// The name and the value of a label of Prometheus.
using StatsLabel = std::pair<std::string, std::string>;

// The metrics of one store, each with the prefix "engine_race_", in seconds and bytes. Every sample
// has `labels`. With more than one store in a process these must tell the stores apart.
//
// A histogram's buckets end at powers of two of a nanosecond. Histograms are left out where no
// latencies were measured. kInvalidArgument, and *text stays as it was, for a label name that
// Prometheus refuses, that the metrics use themselves, or that comes twice.
Status PrometheusText(const StoreStats& stats, const StoreLatencies& latencies,
                      std::span<const StatsLabel> labels, std::string* text);

}  // namespace engine_race

#endif  // ENGINE_RACE_STATS_TEXT_H_
