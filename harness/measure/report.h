// The results of the lab's experiments: rows of named figures, for the terminal and for JSON.
//
// A row is a JSON object: first the varied settings, then the measured figures. The last word of a
// name is its unit, from which the table derives the format.
#ifndef HARNESS_MEASURE_REPORT_H_
#define HARNESS_MEASURE_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// Keeps the order in which its figures were added.
using ResultRow = nlohmann::ordered_json;

// Adds rate, bandwidth, CPU time per request and, if they were measured, latencies.
void AddPoint(const TimedPoint& point, ResultRow* row);
// Adds the point, or the reason why there is none: "unavailable" when this machine lacks the
// feature, which is a result too, or "error".
void AddOutcome(const Status& status, const TimedPoint& point, ResultRow* row);

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
  // The work of one request.
  std::string unit;
  // "disk", "tmpfs", or "cpu" where no device takes part.
  std::string medium;
  std::vector<std::string> notes = {};
  ExperimentPlot plot = {};
  std::vector<ResultRow> rows = {};
};

using Experiments = std::vector<Experiment>;

void to_json(nlohmann::json& json, const Experiment& experiment);
// The experiment with its heading and notes.
std::string ExperimentText(const Experiment& experiment);
// The number of rows with an "error".
uint64_t ErrorCount(const Experiment& experiment);

// "512 B", "16 KiB", "2 MiB"
std::string ByteText(uint64_t bytes);

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_REPORT_H_
