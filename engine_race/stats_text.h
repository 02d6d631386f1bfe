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

// A line for each number, and one for each kind of call whose latencies were measured. The
// decimal point is a dot in every locale, here and below.
std::string StatsText(const StoreStats& stats, const StoreLatencies& latencies = {});

// The name and the value of a label of Prometheus.
using StatsLabel = std::pair<std::string, std::string>;

// The metrics of one store, each with the prefix "engine_race_", in seconds and bytes. Every sample
// has `labels`. The text is a whole page: each metric begins with its type, which a page may say
// once. So two stores cannot share a page; serve each store on a page of its own.
//
// A histogram's buckets end at powers of two of a nanosecond. Histograms are left out where no
// latencies were measured. kInvalidArgument, and *text stays as it was, for labels that no metric
// can have. Those are names that Prometheus refuses, that the metrics use themselves, or that come
// twice, and values that are not UTF-8.
Status PrometheusText(const StoreStats& stats, const StoreLatencies& latencies,
                      std::span<const StatsLabel> labels, std::string* text);

}  // namespace engine_race

#endif  // ENGINE_RACE_STATS_TEXT_H_
