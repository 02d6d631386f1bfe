#include "harness/race/json.h"

#include <nlohmann/json.hpp>

#include "harness/measure/result_file.h"
#include "harness/system/machine.h"

namespace engine_race {

NLOHMANN_JSON_SERIALIZE_ENUM(NumaMode, {{NumaMode::kNone, "none"},
                                        {NumaMode::kInterleave, "interleave"},
                                        {NumaMode::kBind, "bind"}})

}  // namespace engine_race

namespace harness {

// Names in JSON.
NLOHMANN_JSON_SERIALIZE_ENUM(KeyShape, {{KeyShape::kUniform, "uniform"},
                                        {KeyShape::kSequential, "sequential"},
                                        {KeyShape::kZipfian, "zipfian"},
                                        {KeyShape::kOneBucket, "onebucket"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Phase, {{Phase::kWrite, "write"},
                                     {Phase::kRead, "read"},
                                     {Phase::kMixed, "mixed"},
                                     {Phase::kRange, "range"}})

void to_json(nlohmann::json& json, const RaceConfig& config) {
  json = {{"dir", config.dir},
          {"threads", config.thread_count},
          {"records_per_thread", config.records_per_thread},
          {"keys", config.keys},
          {"key_first", config.key_range.first},
          {"key_last", config.key_range.last},
          {"seed", config.seed},
          {"memory_budget_bytes", config.memory_budget_bytes},
          {"value_group_bytes", config.value_group_bytes},
          {"checks_ranged_values", config.checks_ranged_values},
          {"numa_mode", config.numa.mode},
          {"numa_nodes", config.numa.nodes},
          {"moves_text", config.moves_text},
          {"writes_index", config.writes_index}};
}

void from_json(const nlohmann::json& json, RaceConfig& config) {
  json.at("dir").get_to(config.dir);
  json.at("threads").get_to(config.thread_count);
  json.at("records_per_thread").get_to(config.records_per_thread);
  json.at("keys").get_to(config.keys);
  json.at("seed").get_to(config.seed);
  json.at("memory_budget_bytes").get_to(config.memory_budget_bytes);
  json.at("value_group_bytes").get_to(config.value_group_bytes);
  json.at("checks_ranged_values").get_to(config.checks_ranged_values);
  // Notes of older builds lack these fields.
  config.key_range.first = json.value("key_first", config.key_range.first);
  config.key_range.last = json.value("key_last", config.key_range.last);
  config.numa.mode = json.value("numa_mode", config.numa.mode);
  config.numa.nodes = json.value("numa_nodes", config.numa.nodes);
  config.moves_text = json.value("moves_text", config.moves_text);
  config.writes_index = json.value("writes_index", config.writes_index);
}

void to_json(nlohmann::json& json, const PhaseResult& result) {
  json = {{"ok", result.ok},
          {"error", result.error},
          {"seconds", result.seconds},
          {"open_seconds", result.open_seconds},
          {"close_seconds", result.close_seconds},
          {"record_count", result.record_count},
          {"pass_seconds", result.pass_seconds},
          {"mean_ns", result.mean_ns},
          {"p50_ns", result.p50_ns},
          {"p99_ns", result.p99_ns},
          {"p999_ns", result.p999_ns},
          {"max_ns", result.max_ns},
          {"peak_rss_bytes", result.peak_rss_bytes},
          {"cpu_seconds", result.cpu_seconds}};
}

void from_json(const nlohmann::json& json, PhaseResult& result) {
  json.at("ok").get_to(result.ok);
  json.at("error").get_to(result.error);
  json.at("seconds").get_to(result.seconds);
  json.at("open_seconds").get_to(result.open_seconds);
  json.at("close_seconds").get_to(result.close_seconds);
  json.at("record_count").get_to(result.record_count);
  json.at("pass_seconds").get_to(result.pass_seconds);
  json.at("mean_ns").get_to(result.mean_ns);
  json.at("p50_ns").get_to(result.p50_ns);
  json.at("p99_ns").get_to(result.p99_ns);
  json.at("p999_ns").get_to(result.p999_ns);
  json.at("max_ns").get_to(result.max_ns);
  json.at("peak_rss_bytes").get_to(result.peak_rss_bytes);
  json.at("cpu_seconds").get_to(result.cpu_seconds);
}

void to_json(nlohmann::json& json, const FioResult& result) {
  json = {{"ok", result.ok},
          {"error", result.error},
          {"job", result.job},
          {"bytes", result.bytes},
          {"seconds", result.seconds},
          {"bytes_per_second", result.bytes_per_second},
          {"ops_per_second", result.ops_per_second}};
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

std::string ConfigText(const RaceConfig& config) { return nlohmann::json(config).dump(2); }

std::optional<RaceConfig> ParseConfig(const std::string& text) {
  try {
    return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).get<RaceConfig>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void from_json(const nlohmann::json& json, PhaseOrder& order) {
  json.at("phase").get_to(order.phase);
  json.at("config").get_to(order.config);
  // Descriptors are inherited by the phase's process, so a note on disk must not have them.
  json.at("gate_in").get_to(order.config.gate.in);
  json.at("gate_out").get_to(order.config.gate.out);
}

nlohmann::json OrderOf(const PhaseOrder& order) {
  return {{"phase", order.phase},
          {"config", order.config},
          {"gate_in", order.config.gate.in},
          {"gate_out", order.config.gate.out}};
}

bool SaveRace(const RaceConfig& config, const std::vector<PhaseReport>& reports, bool ok,
              const std::string& path) {
  if (path.empty()) return true;
  return SaveJson({{"ok", ok},
                   {"machine", DescribeMachine(config.dir)},
                   {"config", config},
                   {"phases", reports}},
                  path);
}

}  // namespace harness
