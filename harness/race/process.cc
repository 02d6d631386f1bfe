#include "harness/race/process.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harness/system/child_process.h"

namespace harness {

// Names in JSON.
NLOHMANN_JSON_SERIALIZE_ENUM(KeyShape, {{KeyShape::kUniform, "uniform"},
                                        {KeyShape::kSequential, "sequential"},
                                        {KeyShape::kZipfian, "zipfian"},
                                        {KeyShape::kOneBucket, "onebucket"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Phase, {{Phase::kWrite, "write"},
                                     {Phase::kRead, "read"},
                                     {Phase::kRange, "range"}})

void to_json(nlohmann::json& json, const RaceConfig& config) {
  json = {{"dir", config.dir},
          {"threads", config.thread_count},
          {"records_per_thread", config.records_per_thread},
          {"keys", config.keys},
          {"seed", config.seed},
          {"memory_budget_bytes", config.memory_budget_bytes},
          {"value_group_bytes", config.value_group_bytes},
          {"checks_ranged_values", config.checks_ranged_values}};
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
}

void to_json(nlohmann::json& json, const PhaseResult& result) {
  json = {{"ok", result.ok},
          {"error", result.error},
          {"seconds", result.seconds},
          {"open_seconds", result.open_seconds},
          {"close_seconds", result.close_seconds},
          {"record_count", result.record_count},
          {"pass_seconds", result.pass_seconds},
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
  json.at("p50_ns").get_to(result.p50_ns);
  json.at("p99_ns").get_to(result.p99_ns);
  json.at("p999_ns").get_to(result.p999_ns);
  json.at("max_ns").get_to(result.max_ns);
  json.at("peak_rss_bytes").get_to(result.peak_rss_bytes);
  json.at("cpu_seconds").get_to(result.cpu_seconds);
}

namespace {

constexpr std::string_view kPhaseFlag = "--run-phase";

PhaseResult Broken(const std::string& what) {
  PhaseResult result;
  result.error = what;
  return result;
}

}  // namespace

PhaseResult RunPhaseProcess(Phase phase, const RaceConfig& config) {
  const nlohmann::json order = {{"phase", phase}, {"config", config}};
  const ChildResult child = RunChild({SelfPath(), std::string(kPhaseFlag), order.dump()});
  if (!child.started) return Broken(child.error);
  const nlohmann::json answer = nlohmann::json::parse(child.output, nullptr, false);
  if (answer.is_object()) return answer.get<PhaseResult>();
  return Broken("the " + std::string(PhaseName(phase)) + " process ended without a result, code " +
                std::to_string(child.exit_code));
}

std::optional<int> PhaseMain(int argc, char** argv) {
  if (argc != 3 || argv[1] != kPhaseFlag) return std::nullopt;
  const nlohmann::json order = nlohmann::json::parse(argv[2]);
  const PhaseResult result = RunPhase(order.at("phase"), order.at("config").get<RaceConfig>());
  std::puts(nlohmann::json(result).dump().c_str());
  return result.ok ? 0 : 1;
}

}  // namespace harness
