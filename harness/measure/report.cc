#include "harness/measure/report.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "harness/measure/table.h"

namespace engine_race::harness {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExperimentPlot, kind, x, series, y)

namespace {

constexpr char kError[] = "error";
constexpr char kUnavailable[] = "unavailable";

constexpr std::pair<std::string_view, std::string_view> kShortHeads[] = {
    {"requests_per_second", "req/s"},
    {"mb_per_second", "MB/s"},
    {"cpu_ns_per_request", "CPU/req"},
    {"p999_ns", "p99.9"},
    {"write_p999_ns", "write p99.9"}};

std::string HeadOf(std::string_view key) {
  for (const auto& [long_name, head] : kShortHeads) {
    if (key == long_name) return std::string(head);
  }
  for (const std::string_view unit : {"_ns", "_bytes"}) {
    if (key.ends_with(unit)) key.remove_suffix(unit.size());
  }
  std::string head(key);
  std::replace(head.begin(), head.end(), '_', ' ');
  return head;
}

std::string CellOf(std::string_view key, const ResultRow& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_number()) return "-";
  if (key.ends_with("_ns") || key == "cpu_ns_per_request") {
    const double ns = value.get<double>();
    return ns < 100 ? Fixed(ns, 1) + " ns" : Duration(ns);
  }
  if (key.ends_with("_bytes")) return ByteText(value.get<uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  if (key == "mb_per_second") return Fixed(value.get<double>(), 1);
  return Fixed(value.get<double>(), key.ends_with("_per_second") ? 0 : 2);
}

bool IsWord(const std::string& key) { return key == kError || key == kUnavailable; }

// Every name in the rows, in the order of the rows.
std::vector<std::string> KeysOf(const std::vector<ResultRow>& rows) {
  std::vector<std::string> keys;
  for (const ResultRow& row : rows) {
    auto place = keys.begin();
    for (const auto& item : row.items()) {
      if (IsWord(item.key())) continue;
      const auto found = std::find(keys.begin(), keys.end(), item.key());
      place = (found == keys.end() ? keys.insert(place, item.key()) : found) + 1;
    }
  }
  return keys;
}

std::string WordOf(const ResultRow& row) {
  if (row.contains(kError)) return "FAILED: " + row[kError].get<std::string>();
  if (row.contains(kUnavailable)) return "not here: " + row[kUnavailable].get<std::string>();
  return "";
}

void AddLatency(const std::string& prefix, const LatencyHistogram& latency, ResultRow* row) {
  if (latency.count() == 0) return;
  (*row)[prefix + "mean_ns"] = latency.mean_ns();
  (*row)[prefix + "p50_ns"] = latency.PercentileNs(0.5);
  (*row)[prefix + "p99_ns"] = latency.PercentileNs(0.99);
  (*row)[prefix + "p999_ns"] = latency.PercentileNs(0.999);
}

}  // namespace

void AddPoint(const TimedPoint& point, ResultRow* row) {
  (*row)["requests_per_second"] = point.RequestsPerSecond();
  (*row)["mb_per_second"] =
      point.seconds > 0 ? static_cast<double>(point.byte_count) * 1e-6 / point.seconds : 0.0;
  (*row)["cpu_ns_per_request"] = point.CpuNsPerRequest();
  AddLatency("", point.latency, row);
  AddLatency("write_", point.write_latency, row);
}

void AddOutcome(const Status& status, const TimedPoint& point, ResultRow* row) {
  if (status.ok()) return AddPoint(point, row);
  const bool not_here = status.code() == Code::kNotSupported;
  (*row)[not_here ? kUnavailable : kError] = not_here ? status.message() : status.ToString();
}

void to_json(nlohmann::json& json, const Experiment& experiment) {
  json = {{"number", experiment.number},     {"name", experiment.name},
          {"question", experiment.question}, {"unit", experiment.unit},
          {"medium", experiment.medium},     {"notes", experiment.notes},
          {"plot", experiment.plot},         {"rows", experiment.rows}};
}

std::string ExperimentText(const Experiment& experiment) {
  std::string text = std::to_string(experiment.number) + ". " + experiment.name + ", " +
                     experiment.medium + " (a request: " + experiment.unit + ")\n";
  text += "   " + experiment.question + "\n";
  for (const std::string& note : experiment.notes) text += "   note: " + note + "\n";
  const std::vector<std::string> keys = KeysOf(experiment.rows);
  if (keys.empty()) return text + "\n";
  const bool has_words = std::any_of(experiment.rows.begin(), experiment.rows.end(),
                                     [](const ResultRow& row) { return !WordOf(row).empty(); });
  std::vector<std::string> heads;
  heads.reserve(keys.size() + 1);
  for (const std::string& key : keys) heads.push_back(HeadOf(key));
  if (has_words) heads.emplace_back("");
  Table table(heads);
  for (const ResultRow& row : experiment.rows) {
    std::vector<std::string> cells;
    cells.reserve(keys.size() + 1);
    for (const std::string& key : keys) {
      cells.push_back(row.contains(key) ? CellOf(key, row[key]) : "-");
    }
    if (has_words) cells.push_back(WordOf(row));
    table.AddRow(std::move(cells));
  }
  return text + table.ToString() + "\n";
}

uint64_t ErrorCount(const Experiment& experiment) {
  return static_cast<uint64_t>(
      std::count_if(experiment.rows.begin(), experiment.rows.end(),
                    [](const ResultRow& row) { return row.contains(kError); }));
}

std::string ByteText(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {
      {uint64_t{1} << 30, "GiB"}, {uint64_t{1} << 20, "MiB"}, {uint64_t{1} << 10, "KiB"}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes < unit) continue;
    const double count = static_cast<double>(bytes) / static_cast<double>(unit);
    return Fixed(count, bytes % unit == 0 ? 0 : 1) + " " + name;
  }
  return std::to_string(bytes) + " B";
}

}  // namespace engine_race::harness
