// What the I/O experiments find: rows of named figures, the same for the terminal and for JSON.
//
// A row is a JSON object: first what was varied, then what was measured; a name's last word is its
// unit, which the table takes its format from. Plain values; not synchronised.
#ifndef HARNESS_MEASURE_REPORT_H_
#define HARNESS_MEASURE_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/timed.h"

namespace harness {

// Keeps the order in which its figures were put in.
using ResultRow = nlohmann::ordered_json;

// The point with the middle rate, the slower of two; there is at least one.
const TimedPoint& MedianPoint(const std::vector<TimedPoint>& points);
// Adds rate, bandwidth, CPU time per request and, where they were taken, latencies.
void AddPoint(const TimedPoint& point, ResultRow* row);
// Adds the point, or why there is none: "unavailable" for what this machine cannot do, which is a
// result too, "error" for what went wrong.
void AddOutcome(const engine_race::Status& status, const TimedPoint& point, ResultRow* row);

// How scripts/plot draws the rows; `series` may be empty.
struct ExperimentPlot {
  std::string kind = "line";  // or "bar"
  std::string x;
  std::vector<std::string> series;
  std::vector<std::string> y = {"requests_per_second", "cpu_ns_per_request"};
};

struct Experiment {
  int number = 0;
  std::string name;
  std::string question;
  // What one request is.
  std::string unit;
  // "disk", "tmpfs", or "cpu" where no device takes part.
  std::string medium;
  std::vector<std::string> notes;
  ExperimentPlot plot;
  std::vector<ResultRow> rows;
};

using Experiments = std::vector<Experiment>;

void to_json(nlohmann::json& json, const Experiment& experiment);
// The experiment with its heading and notes.
std::string ExperimentText(const Experiment& experiment);
// Rows that carry an "error".
uint64_t ErrorCount(const Experiment& experiment);

// "512 B", "16 KiB", "2 MiB"
std::string ByteText(uint64_t bytes);

}  // namespace harness

#endif  // HARNESS_MEASURE_REPORT_H_
