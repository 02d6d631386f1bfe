#include "harness/compare/comparison.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "harness/bench/benchmark.h"
#include "harness/bench/floor.h"
#include "harness/bench/report.h"
#include "harness/compare/process.h"
#include "harness/compare/report.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/median.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

// Besides the phase's time, for opening, last calls and closing.
constexpr double kMostOverheadSeconds = 60;

constexpr char kRocksName[] = "rocksdb";
constexpr char kWriteBest[] = "write_vs_best_peer";
constexpr char kReadBest[] = "read_vs_best_peer";
constexpr char kRangeBest[] = "range_vs_best_peer";
constexpr char kOpenRocks[] = "open_vs_rocksdb";
constexpr char kWriteAmplification[] = "write_amplification";
constexpr char kSpaceAmplification[] = "space_amplification_uniform";

constexpr ClaimTarget kTargets[] = {{kWriteBest, ">= 5"},
                                    {kReadBest, ">= 1.1"},
                                    {kRangeBest, ">= 10"},
                                    {kOpenRocks, ">= 2"},
                                    {kWriteAmplification, "<= 1.10"},
                                    {kSpaceAmplification, "<= 1.10"},
                                    // Of other programs.
                                    {"python_read_many_ratio", ">= 0.9"},
                                    {"python_hot_ratio", ">= 0.6"},
                                    {"embeddings_vs_memmap", ">= 2"},
                                    {"c_api_cost", "<= 0.02"}};

bool IsFill(const std::string& phase) {
  const BenchTraits* const benchmark = FindBenchmark(phase);
  return phase == kWritePhase || (benchmark != nullptr && benchmark->is_fill);
}

double FillSeconds(const CompareConfig& config) {
  return config.fill_seconds > 0 ? config.fill_seconds : 3 * config.phase_seconds;
}

bool IsTarget(const std::string& name) {
  return std::any_of(std::begin(kTargets), std::end(kTargets),
                     [&](const ClaimTarget& target) { return name == target.name; });
}

}  // namespace

uint64_t NeededBytes(const CompareConfig& config) {
  // LMDB takes two pages for a record, and WiredTiger keeps up to 2 GiB of its log besides.
  constexpr double kMostSpaceAmplification = 2.5;
  constexpr uint64_t kLogBytes = uint64_t{2} << 30;
  const auto store_bytes = static_cast<double>(config.record_count * kBenchRecordBytes);
  const auto data_bytes = static_cast<uint64_t>(kMostSpaceAmplification * store_bytes);
  return std::max(data_bytes + std::min(kLogBytes, data_bytes), 2 * config.floor_bytes);
}

Comparison::Comparison(CompareConfig config) : config_(std::move(config)), rounds_(kTargets) {}

void Comparison::Fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  errors_.push_back(what);
}

void Comparison::Merge(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("claims") || !json["claims"].is_object()) {
    return Fail(path + " has no claims");
  }
  for (const auto& [name, value] : json["claims"].items()) {
    if (!IsTarget(name) || !value.is_number()) {
      Fail(path + ": " + name + " is none of the claims");
    } else {
      rounds_.Settle(name, value.get<double>());
    }
  }
  merged_[fs::path(path).filename().string()] = json;
}

void Comparison::Run() {
  if (config_.memory_cap_bytes > 0) {
    MemoryCgroup trial;
    const engine_race::Status status = trial.Create(config_.memory_cap_bytes);
    if (!status.ok()) {
      cap_word_ = status.message();
      std::fprintf(stderr, "no cap on memory: %s\n", cap_word_.c_str());
    }
  }
  for (uint32_t round = 0; round < config_.round_count; ++round) {
    answers_.clear();
    if (!NoteFloor()) return;
    std::vector<Turn> turns;
    turns.reserve(config_.stores.size());
    for (const std::string& store : config_.stores) {
      turns.emplace_back([this, store, round] { return RunStore(store, round); });
    }
    if (!AlternatingRound(round, turns)) return;
    NoteRound();
  }
}

bool Comparison::NoteFloor() {
  if (config_.floor_bytes == 0) return !Interrupted();
  nlohmann::json floor;
  const engine_race::Status status = MeasureFloor(config_.dir, config_.floor_bytes, &floor);
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

bool Comparison::RunStore(const std::string& store, uint32_t round) {
  if (config_.has_contest) RunContestOf(store, round);
  if (!config_.benchmarks.empty() && !Interrupted()) RunBenchmarksOf(store, round);
  std::error_code ignored;
  fs::remove_all(StoreDir(), ignored);
  return !Interrupted();
}

void Comparison::RunContestOf(const std::string& store, uint32_t round) {
  if (!FreshStoreDir()) return;
  const CompareAnswer written = RunPhase(store, kWritePhase, round, 0);
  if (!written.error.empty()) return;
  for (const std::string& phase : config_.phases) {
    if (Interrupted() || phase == kWritePhase) continue;
    if (RunPhase(store, phase, round, written.written_count).stuck) return;
  }
}

void Comparison::RunBenchmarksOf(const std::string& store, uint32_t round) {
  bool has_store = false;
  for (const std::string& name : config_.benchmarks) {
    if (Interrupted()) return;
    const BenchTraits* const traits = FindBenchmark(name);
    if ((traits->is_fill || !has_store) && !FreshStoreDir()) return;
    has_store = true;
    if (RunPhase(store, name, round, 0).stuck) return;
  }
}

CompareAnswer Comparison::RunPhase(const std::string& store, const std::string& phase,
                                   uint32_t round, uint64_t written_count) {
  CompareOrder order;
  order.store = store;
  order.phase = phase;
  order.round = round;
  order.dir = StoreDir();
  order.thread_count = config_.thread_count;
  order.record_count = config_.record_count;
  order.written_count = written_count;
  order.seed = config_.seed;
  order.phase_seconds = IsFill(phase) ? FillSeconds(config_) : config_.phase_seconds;
  order.process_seconds = 2 * order.phase_seconds + kMostOverheadSeconds;
  order.memory_budget_bytes = config_.memory_budget_bytes;
  order.dense_keys = config_.dense_keys;
  // A new group each time: the page cache that a phase leaves is charged to its own group.
  MemoryCgroup group;
  if (config_.memory_cap_bytes > 0 && cap_word_.empty() &&
      group.Create(config_.memory_cap_bytes).ok()) {
    order.cgroup = group.path();
  }
  CompareAnswer answer = RunCompareProcess(order);
  if (Interrupted()) return answer;
  if (!answer.error.empty()) Fail(store + ", " + phase + ": " + answer.error);
  if (answer.run.is_object()) {
    std::fprintf(stderr, "round %u, %s, %s: %.0f operations/s in %.2f s%s\n", round + 1,
                 store.c_str(), phase.c_str(), answer.OperationsPerSecond(),
                 answer.Figure("seconds").value_or(0),
                 answer.run.value("finished", false) ? "" : ", unfinished");
    runs_.push_back(answer.run);
  }
  if (answer.description.is_object()) {
    nlohmann::json& description = descriptions_[store];
    // What the first phase says stays; a later opening may have other settings.
    if (description.is_null()) description = answer.description;
  }
  answers_[store][phase] = answer;
  return answer;
}

double Comparison::RateOf(const std::string& store, const std::string& phase) const {
  const auto phases = answers_.find(store);
  if (phases == answers_.end()) return 0;
  const auto answer = phases->second.find(phase);
  return answer == phases->second.end() ? 0 : answer->second.OperationsPerSecond();
}

void Comparison::NoteBest(const char* claim, const char* phase) {
  double best = 0;
  for (const auto& [store, phases] : answers_) {
    if (store != kEngineName) best = std::max(best, RateOf(store, phase));
  }
  rounds_.NoteRatio(claim, RateOf(kEngineName, phase), best);
}

void Comparison::NoteRound() {
  NoteBest(kWriteBest, kWritePhase);
  NoteBest(kReadBest, kReadPhase);
  NoteBest(kRangeBest, kRangePhase);
  rounds_.NoteRatio(kOpenRocks, RateOf(kEngineName, kOpenPhase), RateOf(kRocksName, kOpenPhase));
  for (const auto& [store, phases] : answers_) {
    if (RateOf(store, kOpenPhase) > 0) {
      rounds_.Note("open, " + store + ", ms", 1e3 / RateOf(store, kOpenPhase));
    }
  }
  const auto engine = answers_.find(kEngineName);
  if (engine == answers_.end()) return;
  const CompareAnswer& written = engine->second[kWritePhase];
  const auto write_amplification = written.Figure("write_amplification");
  if (write_amplification) rounds_.Note(kWriteAmplification, *write_amplification);
  const auto space_amplification = written.Figure("space_amplification");
  if (space_amplification) rounds_.Note(kSpaceAmplification, *space_amplification);
}

nlohmann::json Comparison::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["kind"] = "compare";
  json["machine"] = MachineJson(config_.dir);
  const bool has_cap = config_.memory_cap_bytes > 0 && cap_word_.empty();
  if (has_cap) json["machine"]["memory_limit_bytes"] = config_.memory_cap_bytes;
  for (const auto& [name, rates] : floor_) json["floor"][name] = MedianOf(rates);
  json["config"] = {{"stores", config_.stores},
                    {"phases", config_.phases},
                    {"benchmarks", config_.benchmarks},
                    {"threads", config_.thread_count},
                    {"records", config_.record_count},
                    {"rounds", config_.round_count},
                    {"phase_seconds", config_.phase_seconds},
                    {"fill_seconds", FillSeconds(config_)},
                    {"seed", config_.seed},
                    {"memory_cap_bytes", has_cap ? config_.memory_cap_bytes : 0},
                    {"no_cap_because", cap_word_},
                    {"memory_budget_bytes", config_.memory_budget_bytes},
                    {"dense_keys", config_.dense_keys}};
  json["runs"] = runs_;
  json["summary"] = SummaryJson(json["runs"]);
  json["stores"] = descriptions_;
  json["missing_stores"] = MissingPeers();
  json["merged"] = merged_;
  json["errors"] = errors_;
  return json;
}

std::string Comparison::ToTable() const {
  const nlohmann::json runs = runs_;
  std::string text = PhaseTables(runs) + WinsTable(runs) + "\n";
  for (const auto& [name, rates] : floor_) {
    char line[128];
    std::snprintf(line, sizeof(line), "fio, %s: %.0f\n", name.c_str(), MedianOf(rates));
    text += line;
  }
  return text + "\n" + rounds_.ToTable();
}

}  // namespace harness
