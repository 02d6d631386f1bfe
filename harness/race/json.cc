#include "harness/race/json.h"

#include "harness/measure/result_file.h"
#include "harness/system/machine.h"

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

// Calls visit(name, field) for each field of a RaceConfig that JSON has.
template <typename Config, typename Visit>
void VisitFields(Config& config, const Visit& visit) {
  visit("dir", config.dir);
  visit("threads", config.thread_count);
  visit("records_per_thread", config.records_per_thread);
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

}  // namespace engine_race::harness
