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
#include "harness/measure/histogram.h"

namespace harness {

// Keeps the order in which its figures were put in.
using IoRow = nlohmann::ordered_json;

// One measurement: so many requests in so much time.
struct IoPoint {
  double seconds = 0;
  // User and system time of the whole process, threads of the kernel that it owns included.
  double cpu_seconds = 0;
  uint64_t request_count = 0;
  uint64_t byte_count = 0;
  // In nanoseconds; empty where requests have no latency of their own. Writes of a mix apart.
  Histogram latency;
  Histogram write_latency;

  double RequestsPerSecond() const;
  double CpuNsPerRequest() const;
};

// The point with the middle rate, the slower of two; there is at least one.
const IoPoint& MedianPoint(const std::vector<IoPoint>& points);
// Adds rate, bandwidth, CPU time per request and, where they were taken, latencies.
void AddPoint(const IoPoint& point, IoRow* row);
// Adds the point, or why there is none: "unavailable" for what this machine cannot do, which is a
// result too, "error" for what went wrong.
void AddOutcome(const engine_race::Status& status, const IoPoint& point, IoRow* row);

// How scripts/plot draws the rows; `series` may be empty.
struct IoPlot {
  std::string kind = "line";  // or "bar"
  std::string x;
  std::vector<std::string> series;
  std::vector<std::string> y = {"requests_per_second", "cpu_ns_per_request"};
};

struct IoExperiment {
  int number = 0;
  std::string name;
  std::string question;
  // What one request is.
  std::string unit;
  // "disk", "tmpfs", or "cpu" where no device takes part.
  std::string medium;
  std::vector<std::string> notes;
  IoPlot plot;
  std::vector<IoRow> rows;
};

void to_json(nlohmann::json& json, const IoExperiment& experiment);
// The experiment with its heading and notes.
std::string ExperimentText(const IoExperiment& experiment);
// Rows that carry an "error".
uint64_t ErrorCount(const IoExperiment& experiment);

// "512 B", "16 KiB", "2 MiB"
std::string ByteText(uint64_t bytes);

}  // namespace harness

#endif  // HARNESS_MEASURE_REPORT_H_
