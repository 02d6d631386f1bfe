#include "harness/compare/comparison.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "harness/bench/benchmark.h"
#include "harness/bench/report.h"
#include "harness/measure/median.h"
#include "harness/measure/table.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "harness/system/memory_cgroup.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

// Besides the phase's time, for opening, last calls and closing.
constexpr double kMostOverheadSeconds = 60;
// The records that the time limit of a writing has left may take three times as long.
constexpr double kRestFactor = 3;

bool IsFill(const std::string& phase) {
  const BenchTraits* const benchmark = FindBenchmark(phase);
  return phase == kWritePhase || (benchmark != nullptr && benchmark->is_fill);
}

double FillSeconds(const CompareConfig& config) {
  return config.fill_seconds > 0 ? config.fill_seconds : 3 * config.phase_seconds;
}

double LimitSeconds(const CompareConfig& config, const std::string& phase) {
  if (phase == kWriteRestPhase) {
    return kRestFactor * std::max(FillSeconds(config), config.phase_seconds);
  }
  return IsFill(phase) ? FillSeconds(config) : config.phase_seconds;
}

// The contest's phases that this run measures. It always writes.
std::vector<std::string> PhasesRun(const CompareConfig& config) {
  if (!config.has_contest) return {};
  std::vector<std::string> phases = config.phases;
  phases.emplace_back(kWritePhase);
  return phases;
}

std::vector<std::string> AllPeerNames() {
  std::vector<std::string> names = MissingPeers();
  for (const KvStoreKind& kind : Peers()) names.push_back(kind.name);
  return names;
}

}  // namespace

uint64_t NeededBytes(const CompareConfig& config) {
  // LMDB takes two pages for a record, and WiredTiger keeps up to 2 GiB of its log besides.
  constexpr double kMostSpaceAmplification = 2.5;
  constexpr uint64_t kLogBytes = uint64_t{2} << 30;
  const auto store_bytes =
      static_cast<double>(config.record_count * RecordBytes(config.value_bytes));
  const auto data_bytes = static_cast<uint64_t>(kMostSpaceAmplification * store_bytes);
  return std::max(data_bytes + std::min(kLogBytes, data_bytes), 2 * config.floor_bytes);
}

Comparison::Comparison(CompareConfig config)
    : config_(std::move(config)), claims_(config_.stores, AllPeerNames()) {}

void Comparison::Fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  errors_.push_back(what);
}

void Comparison::Merge(const std::string& path) {
  const nlohmann::json json = LoadJson(path);
  if (!json.is_object() || !json.contains("claims") || !json["claims"].is_object()) {
    return Fail(path + " has no claims");
  }
  for (const auto& [name, value] : json["claims"].items()) {
    if (!value.is_number()) {
      Fail(path + ": " + name + " is not a number");
    } else if (!claims_.TakeOver(name, value.get<double>())) {
      Fail(path + ": there is no claim " + name);
    }
  }
  for (const auto& error : json.value("errors", nlohmann::json::array())) {
    Fail(path + ": " + (error.is_string() ? error.get<std::string>() : error.dump()));
  }
  const nlohmann::json reasons = json.value("not_measured", nlohmann::json::object());
  for (const auto& [name, why] : reasons.items()) {
    merged_reasons_[name] = why.is_string() ? why.get<std::string>() : why.dump();
  }
  merged_[fs::path(path).filename().string()] = json;
}

std::map<std::string, std::string> Comparison::WhyNotMeasured() const {
  std::map<std::string, std::string> reasons;
  for (const std::string& name : claims_.Unmeasured()) {
    const auto merged = merged_reasons_.find(name);
    if (merged != merged_reasons_.end()) {
      reasons[name] = merged->second;
    } else if (CompareClaims::IsOfAnotherProgram(name)) {
      reasons[name] = "no merged file has it";
    } else {
      reasons[name] = claims_.WhyUnmeasured(name, PhasesRun(config_), no_cap_reason_);
    }
  }
  return reasons;
}

void Comparison::Run() {
  if (config_.memory_cap_bytes > 0) {
    const Status status = MemoryCgroup::TryOut(config_.memory_cap_bytes);
    if (!status.ok()) {
      no_cap_reason_ = status.message();
      claims_.LackCap();
      std::fprintf(stderr, "no cap on memory: %s\n", no_cap_reason_.c_str());
    }
  }
  for (uint32_t round = 0; round < config_.round_count; ++round) {
    if (!NoteFloor() || !RunRound(round)) return;
  }
}

// Every store has every position in turn. So drift within a round, such as a disk's burst
// allowance, favours no store.
bool Comparison::RunRound(uint32_t round) {
  answers_.clear();
  uint32_t position = 0;
  for (const uint32_t store : StoresInTurn(round, static_cast<uint32_t>(config_.stores.size()))) {
    const CompareOrder order = OrderOf(config_.stores[store], round, position++);
    if (Interrupted() || !RunStore(order)) return false;
  }
  claims_.NoteRound(answers_);
  return !Interrupted();
}

bool Comparison::NoteFloor() {
  if (config_.floor_bytes == 0) return !Interrupted();
  nlohmann::json floor;
  const Status status = MeasureFloor(config_.dir, config_.floor_bytes, &floor);
  if (Interrupted()) return false;
  if (!status.ok()) {
    Fail("the device's rates: " + status.ToString());
    return true;
  }
  for (const auto& [name, rate] : floor.items()) floor_[name].push_back(rate.get<double>());
  return true;
}

bool Comparison::FreshStoreDir() {
  std::error_code failed;
  fs::remove_all(StoreDir(), failed);
  if (!failed) fs::create_directories(StoreDir(), failed);
  if (failed) Fail(StoreDir() + ": " + failed.message());
  return !failed;
}

bool Comparison::RunStore(CompareOrder order) {
  if (config_.has_contest) RunContestOf(&order);
  if (!config_.benchmarks.empty() && !Interrupted()) RunBenchmarksOf(&order);
  std::error_code ignored;
  fs::remove_all(StoreDir(), ignored);
  return !Interrupted();
}

bool Comparison::WriteAll(CompareOrder* order) {
  if (!RunPhase(kWritePhase, order)) return false;
  const bool only_writes =
      std::all_of(config_.phases.begin(), config_.phases.end(),
                  [](const std::string& phase) { return phase == kWritePhase; });
  if (only_writes) return false;
  return order->has_all_records || RunPhase(kWriteRestPhase, order);
}

void Comparison::RunContestOf(CompareOrder* order) {
  if (!FreshStoreDir() || !WriteAll(order)) return;
  // The first opening replays what a store has left in its log. It is always run, so no later phase
  // depends on the choice of phases.
  if (!RunPhase(kOpenAfterLoadPhase, order)) return;
  for (const std::string& phase : config_.phases) {
    if (phase == kWritePhase) continue;
    const uint32_t count = phase == kOpenPhase ? config_.opening_count : 1;
    for (uint32_t i = 0; i < count; ++i) {
      if (!RunPhase(phase, order, i)) return;
    }
  }
}

// After a failure nothing is run before the next fill, which begins with a fresh store.
void Comparison::RunBenchmarksOf(CompareOrder* order) {
  bool failed = false;
  for (const std::string& name : config_.benchmarks) {
    if (Interrupted()) return;
    const BenchTraits* const traits = FindBenchmark(name);
    if (failed && !traits->is_fill) {
      Fail(order->store + ", " + name + ": left out, because a benchmark before it failed");
      continue;
    }
    if (traits->is_fill) {
      if (!FreshStoreDir()) return;
      order->written_count = 0;
      order->has_all_records = true;
    }
    if (traits->is_ycsb && !traits->is_fill && !order->has_all_records) {
      Fail(order->store + ", " + name + ": left out, because the fill before it did not finish");
      continue;
    }
    failed = !RunPhase(name, order);
  }
}

CompareOrder Comparison::OrderOf(const std::string& store, uint32_t round,
                                 uint32_t position) const {
  CompareOrder order;
  static_cast<CompareLoad&>(order) = config_;
  order.dir = StoreDir();
  order.store = store;
  order.round = round;
  order.position = position;
  return order;
}

CompareAnswer Comparison::RunCapped(CompareOrder order) const {
  CompareAnswer refused;
  if (Interrupted()) {
    refused.error = "interrupted";
    return refused;
  }
  // A new group each time: the page cache that a phase leaves is charged to its own group.
  MemoryCgroup group;
  if (has_cap()) {
    const Status status = group.Create(config_.memory_cap_bytes);
    if (!status.ok()) {
      refused.error = "no cap on memory: " + status.message();
      return refused;
    }
    order.cgroup = group.path();
    order.cgroup_version = group.version();
    order.memory_cap_bytes = config_.memory_cap_bytes;
  }
  return RunCompareProcess(order);
}

bool Comparison::RunPhase(const std::string& phase, CompareOrder* order, uint32_t opening) {
  if (Interrupted()) return false;
  order->phase = phase;
  order->opening = opening;
  order->phase_seconds = LimitSeconds(config_, phase);
  order->process_seconds = 2 * order->phase_seconds + kMostOverheadSeconds;
  const CompareAnswer answer = RunCapped(*order);
  if (Interrupted()) return false;
  NoteAnswer(*order, answer);
  if (!answer.ok()) return false;
  order->written_count = answer.written_count;
  order->has_all_records = answer.has_all_records;
  return true;
}

void Comparison::NoteAnswer(const CompareOrder& order, const CompareAnswer& answer) {
  const std::string what = order.store + ", " + order.phase;
  const bool has_run = answer.run.is_object();
  if (!answer.ok()) {
    Fail(what + ": " + answer.error);
    nlohmann::json failed = has_run ? answer.run : nlohmann::json::object();
    failed["store"] = order.store;
    failed["phase"] = order.phase;
    failed["round"] = order.round;
    failed["error"] = answer.error;
    failed_runs_.push_back(failed);
  } else if (has_run) {
    std::fprintf(stderr, "round %u, %s: %.0f operations/s in %.2f s%s\n", order.round + 1,
                 what.c_str(), answer.OperationsPerSecond(), answer.Figure("seconds").value_or(0),
                 answer.run.value("finished", false) ? "" : ", unfinished");
    if (order.phase != kWriteRestPhase) runs_.push_back(answer.run);
  }
  // The first phase's description is kept. A later opening may have other settings.
  if (answer.description.is_object()) descriptions_.try_emplace(order.store, answer.description);
  answers_[order.store][order.phase].push_back(answer);
}

nlohmann::json Comparison::ToJson() const {
  nlohmann::json json = claims_.rounds().ToJson();
  json["kind"] = "compare";
  json["machine"] = MachineJson(config_.dir);
  if (has_cap()) json["machine"]["memory_limit_bytes"] = config_.memory_cap_bytes;
  for (const auto& [name, rates] : floor_) json["floor"][name] = MedianOf(rates);
  json["config"] = {{"stores", config_.stores},
                    {"phases", config_.phases},
                    {"benchmarks", config_.benchmarks},
                    {"threads", config_.thread_count},
                    {"records", config_.record_count},
                    {"value_size", config_.value_bytes},
                    {"rounds", config_.round_count},
                    {"openings", config_.opening_count},
                    {"phase_seconds", config_.phase_seconds},
                    {"fill_seconds", FillSeconds(config_)},
                    {"write_rest_seconds", LimitSeconds(config_, kWriteRestPhase)},
                    {"seed", config_.seed},
                    {"memory_cap_bytes", has_cap() ? config_.memory_cap_bytes : 0},
                    {"no_cap_because", no_cap_reason_},
                    {"memory_budget_bytes", config_.memory_budget_bytes},
                    {"dense_keys", config_.dense_keys}};
  json["runs"] = runs_;
  json["failed_runs"] = failed_runs_;
  json["summary"] = SummaryJson(json["runs"]);
  json["stores"] = descriptions_;
  json["missing_stores"] = MissingPeers();
  json["merged"] = merged_;
  json["not_measured"] = WhyNotMeasured();
  json["errors"] = errors_;
  return json;
}

std::string Comparison::ToTable() const {
  const nlohmann::json runs = runs_;
  std::string text = PhaseTables(runs) + WinsTable(runs, failed_runs_) + "\n";
  for (const auto& [name, rates] : floor_) {
    text += "fio, " + name + ": " + Fixed(MedianOf(rates), 0) + "\n";
  }
  text += "\n" + claims_.rounds().ToTable() + "\n";
  for (const auto& [name, why] : WhyNotMeasured()) {
    text += "not measured: " + name + ": " + why + "\n";
  }
  return text;
}

}  // namespace engine_race::harness
