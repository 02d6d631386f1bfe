#include "harness/race/runner.h"

#include <filesystem>

#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/progress.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/memory_maps.h"
#include "harness/system/process_stats.h"

namespace engine_race {

NLOHMANN_JSON_SERIALIZE_ENUM(NumaMode, {{NumaMode::kNone, "none"},
                                        {NumaMode::kInterleave, "interleave"},
                                        {NumaMode::kBind, "bind"}})

}  // namespace engine_race

namespace engine_race::harness {

// Names in JSON.
NLOHMANN_JSON_SERIALIZE_ENUM(KeyShape, {{KeyShape::kUniform, "uniform"},
                                        {KeyShape::kSequential, "sequential"},
                                        {KeyShape::kZipfian, "zipfian"},
                                        {KeyShape::kOneBucket, "onebucket"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Phase, {{Phase::kWrite, "write"},
                                     {Phase::kRead, "read"},
                                     {Phase::kMixed, "mixed"},
                                     {Phase::kRange, "range"}})

namespace {

PhaseResult RunInChild(Phase phase, const RaceConfig& config) {
  nlohmann::json answer;
  const Status status = RunOwnChild(kPhaseWork,
                                    {{"phase", phase},
                                     {"config", config},
                                     // A note of the configuration on disk must not have these.
                                     {"gate_in", config.gate.in},
                                     {"gate_out", config.gate.out}},
                                    &answer);
  PhaseResult result;
  if (answer.contains("seconds")) answer.get_to(result);
  if (!status.ok() && result.error.empty()) result.error = status.message();
  return result;
}

FioResult MeasureDevice(Phase phase, const RaceConfig& config, FioRunner* fio) {
  // No job of fio does what a mixed phase does.
  if (fio == nullptr || phase == Phase::kMixed) {
    FioResult none;
    none.error = "not measured";
    return none;
  }
  const uint64_t bytes = config.record_count() * config.value_bytes;
  const StatusLine line(std::string("the device, for ") + PhaseName(phase) + " ...");
  switch (phase) {
    case Phase::kWrite:
      return fio->BestWrite(bytes, config.value_bytes);
    case Phase::kRead:
    case Phase::kMixed:
      return fio->RandomRead(bytes, config.value_bytes, config.thread_count * config.reads_each());
    case Phase::kRange:
      return fio->BestScan(bytes);
  }
  return {};
}

// One line of the table: of a phase, or of a pass of the range.
std::vector<std::string> Row(const PhaseReport& report, const std::string& name, double seconds,
                             double rate) {
  const PhaseResult& result = report.result;
  const auto latency = [&](uint64_t ns) {
    return report.phase == Phase::kRange ? "-" : Duration(static_cast<double>(ns));
  };
  return {name,
          Fixed(seconds, 2),
          Fixed(rate / result.value_bytes, 0),
          Fixed(rate * 1e-6, 1),
          latency(result.p50_ns),
          latency(result.p99_ns),
          latency(result.p999_ns),
          Fixed(static_cast<double>(result.peak_rss_bytes) * 0x1p-20, 0),
          Fixed(result.cpu_seconds, 2),
          report.has_device() ? Fixed(report.DeviceBytesPerSecond() * 1e-6, 1) : "-",
          report.has_device() ? Fixed(report.FractionOf(rate), 3) : "-"};
}

std::vector<std::string> PassRow(const PhaseReport& report, uint32_t pass) {
  constexpr size_t kMemoryColumn = 7;
  const PhaseResult& result = report.result;
  std::vector<std::string> row = Row(report, "range, pass " + std::to_string(pass + 1),
                                     result.pass_seconds[pass], result.PassBytesPerSecond(pass));
  // Memory and CPU time are of the whole phase.
  if (pass > 0) row[kMemoryColumn] = row[kMemoryColumn + 1] = "";
  return row;
}

}  // namespace

double PhaseReport::DeviceBytesPerSecond() const {
  if (!has_device()) return 0;
  if (phase == Phase::kRead) {
    return (before.ops_per_second + after.ops_per_second) / 2 * result.value_bytes;
  }
  return (before.bytes_per_second + after.bytes_per_second) / 2;
}

double PhaseReport::FractionOf(double bytes_per_second) const {
  return has_device() ? bytes_per_second / DeviceBytesPerSecond() : 0;
}

Status RunPhaseWork(const nlohmann::json& json, nlohmann::json* answer) {
  auto config = json.at("config").get<RaceConfig>();
  config.gate = {.in = json.at("gate_in"), .out = json.at("gate_out")};
  if (config.moves_text) ENGINE_RACE_RETURN_IF_ERROR(MoveTextToOwnMemory());
  *answer = RunPhase(json.at("phase").get<Phase>(), config);
  return Status::Ok();
}

PhaseReport MeasurePhase(Phase phase, const RaceConfig& config, FioRunner* fio) {
  PhaseReport report;
  report.phase = phase;
  report.before = MeasureDevice(phase, config, fio);
  if (Interrupted()) {
    report.result.error = "interrupted";
    return report;
  }
  // Other instances keep their page cache.
  const bool is_alone = config.gate.out < 0;
  const auto drop = [&] { return is_alone ? DropPageCache(config.dir) : DropFilesOf(config.dir); };
  report.cache_drop = drop();
  if (!PassGate(config.gate, std::string("start ") + PhaseName(phase))) {
    report.result.error = "the other instances have stopped";
    return report;
  }
  report.result = RunInChild(phase, config);
  // The next run of fio must not pay for dirty pages of the phase.
  drop();
  if (Interrupted()) return report;
  report.after = MeasureDevice(phase, config, report.result.ok ? fio : nullptr);
  return report;
}

std::string NotTheContest(const RaceConfig& config) {
  return "values of " + std::to_string(config.value_bytes) + " bytes, not the contest's " +
         std::to_string(kValueSize);
}

std::string ReportTable(const std::vector<PhaseReport>& reports) {
  Table table({"phase", "seconds", "ops/s", "MB/s", "P50", "P99", "P99.9", "peak RSS MiB", "CPU s",
               "device MB/s", "of device"});
  for (const PhaseReport& report : reports) {
    if (!report.result.ok) {
      table.AddRow(
          {PhaseName(report.phase), "failed", "-", "-", "-", "-", "-", "-", "-", "-", "-"});
    } else if (report.phase != Phase::kRange) {
      table.AddRow(Row(report, PhaseName(report.phase), report.result.seconds,
                       report.result.BytesPerSecond()));
    } else {
      for (uint32_t pass = 0; pass < kRangePasses; ++pass) table.AddRow(PassRow(report, pass));
    }
  }
  return table.ToString();
}

namespace {

// Calls visit(name, field) for each field of a RaceConfig that JSON has.
template <typename Config, typename Visit>
void VisitFields(Config& config, const Visit& visit) {
  visit("dir", config.dir);
  visit("threads", config.thread_count);
  visit("records_per_thread", config.records_per_thread);
  visit("value_bytes", config.value_bytes);
  visit("reads_per_thread", config.reads_per_thread);
  visit("range_threads", config.range_thread_count);
  visit("keys", config.keys);
  visit("key_first", config.key_range.first);
  visit("key_last", config.key_range.last);
  visit("seed", config.seed);
  visit("memory_budget_bytes", config.memory_budget_bytes);
  visit("value_group_bytes", config.value_group_bytes);
  visit("checks_ranged_values", config.checks_ranged_values);
  visit("numa_mode", config.numa.mode);
  visit("numa_nodes", config.numa.nodes);
  visit("moves_text", config.moves_text);
  visit("writes_index", config.writes_index);
}

}  // namespace

void to_json(nlohmann::json& json, const RaceConfig& config) {
  VisitFields(config, [&](const char* name, const auto& field) { json[name] = field; });
}

void from_json(const nlohmann::json& json, RaceConfig& config) {
  VisitFields(config, [&](const char* name, auto& field) { json.at(name).get_to(field); });
}

void to_json(nlohmann::json& json, const PhaseReport& report) {
  json = {{"phase", PhaseName(report.phase)},
          {"cache_drop", report.cache_drop},
          {"engine", report.result},
          {"fio_before", report.before},
          {"fio_after", report.after}};
  const auto add_rate = [&](const std::string& prefix, double rate) {
    json[prefix + "bytes_per_second"] = rate;
    if (report.has_device()) json[prefix + "fraction_of_device"] = report.FractionOf(rate);
  };
  if (report.phase != Phase::kRange) return add_rate("", report.result.BytesPerSecond());
  for (uint32_t pass = 0; pass < kRangePasses; ++pass) {
    add_rate("pass" + std::to_string(pass + 1) + "_", report.result.PassBytesPerSecond(pass));
  }
}

bool SaveRace(const RaceConfig& config, const std::vector<PhaseReport>& reports, bool ok,
              const std::string& path) {
  if (path.empty()) return true;
  nlohmann::json json = {{"ok", ok},
                         {"machine", DescribeMachine(config.dir)},
                         {"config", config},
                         {"phases", reports}};
  if (!config.has_contest_size()) json["not_the_contest"] = NotTheContest(config);
  return SaveJson(json, path);
}

namespace {

namespace fs = std::filesystem;

constexpr char kNoteName[] = "race.json";

constexpr char kFioPrefix[] = "fio-";

// Files of the engine and of the runs beside it; nothing else is ever removed.
bool IsOurs(const std::string& name) {
  return name == kNoteName || name.starts_with(kFioPrefix) || IsStoreFile(name);
}

}  // namespace

RaceDir::~RaceDir() {
  if (is_fresh_) RemoveStore();
}

Status RaceDir::Prepare(const std::string& path) {
  // Files with names of a store belong to a race only when there is a note.
  const bool has_note = !path.empty() && fs::exists(fs::path(path) / kNoteName);
  ENGINE_RACE_RETURN_IF_ERROR(dir_.Prepare(path, has_note ? IsOurs : nullptr));
  is_fresh_ = path.empty();
  return Status::Ok();
}

Status RaceDir::StartStore(const RaceConfig& config) {
  RemoveStore();
  const bool is_written = SaveJson(config, path() + "/" + kNoteName);
  return is_written ? Status::Ok() : Status::IOError(path() + ": cannot write " + kNoteName);
}

std::optional<RaceConfig> RaceDir::ReadNote() const {
  try {
    return LoadJson(path() + "/" + kNoteName).get<RaceConfig>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void RaceDir::RemoveStore() { RemoveFiles(path(), IsOurs); }

}  // namespace engine_race::harness
