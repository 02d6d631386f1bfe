// `bin/store top`: follows a running store through the stats file that it offers.
//
// Neither the store nor other readers notice.
#ifndef HARNESS_TOOLS_STORE_TOP_H_
#define HARNESS_TOOLS_STORE_TOP_H_

#include <string>

#include "engine_race/base/status.h"
#include "engine_race/stats_file.h"

namespace engine_race::harness {

// Rates, latencies, hit rates and memory, between two states of one store's stats.
std::string TopTable(const std::string& dir, const PublishedStats& before,
                     const PublishedStats& now);
// Rates and latencies as one line of JSON, with every number of the later state.
std::string TopJson(const std::string& dir, const PublishedStats& before,
                    const PublishedStats& now);

// The metrics for Prometheus. The label `store` is the absolute name of `dir`, with U+FFFD for
// bytes that are not UTF-8.
Status TopPrometheus(const std::string& dir, const PublishedStats& now, std::string* text);

enum class TopForm { kTable, kJson, kPrometheus };

// Prints one form of the stats whenever the store has written them, or once; Prometheus' form
// always once. Returns the exit code: kExitFailure when the store has ended meanwhile, kExitRefused
// when there is nothing to follow or the output cannot be written. With kPrometheus also
// kExitRefused when the store has not written its stats for three intervals and at least five
// seconds.
int RunTop(const std::string& dir, TopForm form, bool once);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_TOP_H_
