#include "harness/claims/bench_numa.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "harness/measure/alternating_rounds.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr char kTextShared[] = "text_local_shared";
constexpr char kTextCopies[] = "text_local_copies";
constexpr char kTextRemap[] = "text_local_remap";
constexpr char kAnonymous[] = "anon_local";
constexpr char kNodes[] = "nodes_tested";
constexpr char kCost[] = "single_node_cost";

constexpr ClaimTarget kTargets[] = {{kTextShared, ""},     {kTextCopies, "= 1.0"},
                                    {kTextRemap, "= 1.0"}, {kAnonymous, ">= 0.99"},
                                    {kNodes, ">= 8"},      {kCost, "<= 0.02"}};

// The figures of each phase: sums of `numa race`, or engine results of `race`.
std::vector<nlohmann::json> PhasesOf(const nlohmann::json& figures) {
  if (figures.contains("sums")) return figures.at("sums");
  std::vector<nlohmann::json> phases;
  for (const nlohmann::json& phase : figures.at("phases")) phases.push_back(phase.at("engine"));
  return phases;
}

}  // namespace

std::optional<GuestShares> SharesOfGuests(const nlohmann::json& guests) {
  GuestShares shares;
  double shared_sum = 0;
  std::map<std::string, uint32_t> race_counts;
  try {
    for (const nlohmann::json& guest : guests.at("guests")) {
      const auto node_count = guest.at("nodes").get<uint32_t>();
      if (guest.at("ok").get<bool>()) {
        shares.node_count = std::max(shares.node_count, node_count);
      } else {
        shares.failed_guests.push_back(node_count);
      }
      for (const auto& [name, race] : guest.at("races").items()) {
        const auto text = race.at("text").get<std::string>();
        const double local = race.at("code_local").get<double>();
        ++race_counts[text];
        shares.anonymous = std::min(shares.anonymous, race.at("anonymous_local").get<double>());
        if (text == "copies") shares.text_copies = std::min(shares.text_copies, local);
        if (text == "remap") shares.text_remap = std::min(shares.text_remap, local);
        if (text == "shared") shared_sum += race.at("code_local_mean").get<double>();
      }
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  for (const char* text : {"shared", "copies", "remap"}) {
    if (race_counts[text] == 0) return std::nullopt;
  }
  shares.text_shared = shared_sum / race_counts["shared"];
  return shares;
}

BenchNuma::BenchNuma(NumaBenchConfig config) : config_(std::move(config)), rounds_(kTargets) {}

void BenchNuma::AddGuests(const std::string& path) {
  std::ifstream file(path);
  guests_ = nlohmann::json::parse(file, nullptr, false);
  // A discarded value would be written as text that is no JSON.
  if (guests_.is_discarded()) guests_ = nullptr;
  const std::optional<GuestShares> shares = SharesOfGuests(guests_);
  if (!shares) return Fail("no shares of guests in " + path);
  for (const uint32_t node_count : shares->failed_guests) {
    Fail("the guest with " + std::to_string(node_count) + " nodes failed");
  }
  rounds_.Note(kTextShared, shares->text_shared);
  rounds_.Note(kTextCopies, shares->text_copies);
  rounds_.Note(kTextRemap, shares->text_remap);
  rounds_.Note(kAnonymous, shares->anonymous);
  rounds_.Note(kNodes, shares->node_count);
}

bool BenchNuma::RunOne(std::vector<std::string> command, Took* took) {
  const std::string dir = config_.dir + "/race";
  const std::string json_path = config_.dir + "/figures.json";
  const std::vector<std::string> flags = {"--dir",     dir,
                                          "--json",    json_path,
                                          "--threads", std::to_string(config_.thread_count),
                                          "--num",     std::to_string(config_.records_per_thread),
                                          "--seed",    std::to_string(config_.seed)};
  command.insert(command.end(), flags.begin(), flags.end());
  const uint64_t start_ns = NowNs();
  const ChildResult run = RunChild(command);
  took->whole_seconds = SecondsSince(start_ns);
  std::error_code ignored;
  fs::remove_all(dir, ignored);
  if (Interrupted()) return false;
  std::ifstream file(json_path);
  const nlohmann::json figures = nlohmann::json::parse(file, nullptr, false);
  if (run.exit_code != 0 || !figures.is_object()) {
    Fail(command[0] + ": " + (run.started ? run.output : run.error));
    return false;
  }
  const std::string note = figures.value("note", "");
  if (!note.empty()) {
    Fail(command[0] + ": " + note);
    return false;
  }
  took->phase_seconds = took->cpu_seconds = 0;
  for (const nlohmann::json& phase : PhasesOf(figures)) {
    took->phase_seconds += phase.at("seconds").get<double>();
    took->cpu_seconds += phase.at("cpu_seconds").get<double>();
  }
  return true;
}

void BenchNuma::CompareLauncher() {
  Took plain;
  Took static_alone;
  Took launched;
  const std::vector<Turn> turns = {
      [&] {
        return RunOne({config_.programs + "/race", "--no-fio"}, &plain);
      },
      [&] {
        return RunOne({config_.programs + "/race_static", "--no-fio"}, &static_alone);
      },
      [&] {
        return RunOne({config_.programs + "/numa", "race", "--groups", "1"}, &launched);
      }};
  AlternatingRounds(config_.round_count, turns, [&](uint32_t round) {
    rounds_.Note(kCost, launched.phase_seconds / plain.phase_seconds - 1);
    // The launcher runs the program that is linked statically.
    rounds_.Note("phases, with the launcher over the same program alone",
                 launched.phase_seconds / static_alone.phase_seconds);
    rounds_.Note("phases, linked statically over dynamically",
                 static_alone.phase_seconds / plain.phase_seconds);
    rounds_.Note("CPU time of the phases, with the launcher over the same program alone",
                 launched.cpu_seconds / static_alone.cpu_seconds);
    rounds_.Note("whole command, with the launcher over the same program alone",
                 launched.whole_seconds / static_alone.whole_seconds);
    rounds_.Note("phases with the launcher, s", launched.phase_seconds);
    rounds_.Note("phases of the same program alone, s", static_alone.phase_seconds);
    rounds_.Note("phases of bin/race, s", plain.phase_seconds);
    std::fprintf(stderr, "round %u: phases %.2f s with the launcher, %.2f s of bin/race\n",
                 round + 1, launched.phase_seconds, plain.phase_seconds);
  });
}

nlohmann::json BenchNuma::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["guests"] = guests_;
  json["config"] = {{"threads", config_.thread_count},
                    {"records_per_thread", config_.records_per_thread},
                    {"rounds", config_.round_count}};
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
