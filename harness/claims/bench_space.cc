#include "harness/claims/bench_space.h"

#include <algorithm>
#include <cstdio>

#include "harness/claims/space_measurements.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

bool IsWanted(const SpaceConfig& config, const SpaceMeasurement& measurement) {
  return config.only.empty() || config.only.contains(measurement.name);
}

}  // namespace

std::vector<std::string> SpaceMeasurementNames() {
  std::vector<std::string> names;
  for (const SpaceMeasurement& measurement : SpaceMeasurements()) {
    names.emplace_back(measurement.name);
  }
  return names;
}

uint64_t SpaceNeeded(const SpaceConfig& config) {
  uint64_t needed_bytes = 0;
  for (const SpaceMeasurement& measurement : SpaceMeasurements()) {
    if (!IsWanted(config, measurement)) continue;
    needed_bytes = std::max(needed_bytes, measurement.needed_bytes(config));
  }
  return needed_bytes;
}

BenchSpace::BenchSpace(const SpaceConfig& config) : config_(config), rounds_(SpaceTargets()) {}

bool BenchSpace::Run(const std::function<void()>& after_each) {
  SpaceReport report = {&rounds_, &about_};
  for (const SpaceMeasurement& measurement : SpaceMeasurements()) {
    if (!IsWanted(config_, measurement) || Interrupted()) continue;
    std::fprintf(stderr, "%s ...\n", measurement.name);
    const uint64_t begin_ns = NowNs();
    const engine_race::Status measured = measurement.measure(config_, &report);
    if (!measured.ok()) errors_.push_back(measurement.name + (": " + measured.ToString()));
    about_["seconds"][measurement.name] = SecondsSince(begin_ns);
    after_each();
  }
  return errors_.empty();
}

nlohmann::json BenchSpace::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["about"] = about_;
  json["config"] = {{"data_bytes", config_.data_bytes},
                    {"passes", config_.pass_count},
                    {"threads", config_.thread_count},
                    {"rounds", config_.round_count},
                    {"seconds", config_.seconds},
                    {"ramp_seconds", config_.ramp_seconds},
                    {"precondition_passes", config_.precondition_pass_count},
                    {"memory_budget_bytes", config_.memory_budget_bytes},
                    {"read_rate", config_.read_rate},
                    {"read_threads", config_.read_thread_count},
                    {"write_rate", config_.write_rate},
                    {"cost_bytes", config_.cost_bytes},
                    {"cost_threads", config_.cost_thread_count},
                    {"cost_rounds", config_.cost_round_count},
                    {"seed", config_.seed}};
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
