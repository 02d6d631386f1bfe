// The measured claims about NUMA nodes. Guests with several nodes show where text and memory of
// instances lie. A machine with one node shows the cost of the launcher.
//
// Shares come from the file that scripts/numa_guest.py has left. The cost compares races that run
// after each other, all on tmpfs.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

constexpr char kTextShared[] = "text_local_shared";
constexpr char kTextCopies[] = "text_local_copies";
constexpr char kTextRemap[] = "text_local_remap";
constexpr char kAnonymous[] = "anon_local";
constexpr char kNodes[] = "nodes_tested";

// The figures of each phase: sums of `numa race`, or engine results of `race`.
std::vector<nlohmann::json> PhasesOf(const nlohmann::json& figures) {
  if (figures.contains("sums")) return figures.at("sums");
  std::vector<nlohmann::json> phases;
  for (const nlohmann::json& phase : figures.at("phases")) phases.push_back(phase.at("engine"));
  return phases;
}

class NumaBench final : public Bench {
 public:
  NumaBench() : Bench("numa", "where instances have their memory, and what one costs") {}

 private:
  std::vector<BenchPart> Parts() override {
    return {{"guests",
             {{kTextShared, ""},
              {kTextCopies, "= 1.0"},
              {kTextRemap, "= 1.0"},
              {kAnonymous, ">= 0.99"},
              {kNodes, ">= 8"}},
             By(&NumaBench::TakeGuests),
             {0, false, guests_path_().empty() ? "--guests is missing" : ""}},
            {"launcher",
             {{"single_node_cost", "<= 0.02", "", "phases with the launcher, s",
               "phases of bin/race, s", RatioForm::kGrowth}},
             By(&NumaBench::CompareLauncher),
             kTmpfs}};
  }
  uint64_t TmpfsBytes() override {
    return StoreBytes(thread_count_ * records_per_thread_) + (uint64_t{256} << 20);
  }

  Status TakeGuests() {
    const nlohmann::json guests = LoadJson(guests_path_);
    more_json_["guests"] = guests;
    const std::map<std::string, double> shares = SharesOfGuests(guests, &errors_);
    if (shares.empty())
      return Status::InvalidArgument("no shares of guests in '" + guests_path_() + "'");
    for (const auto& [claim, share] : shares) rounds_.Note(claim, share);
    return Status::Ok();
  }

  // Races with the launcher and without it.
  Status CompareLauncher() {
    more_json_["machine"] = DescribeMachine(tmpfs_dir());
    // All from memory, so that no side reads its program from the disk again after the page cache
    // was dropped.
    const std::string programs = tmpfs_dir() + "/programs";
    const fs::path built = fs::path(SelfPath()).parent_path();
    std::error_code failed;
    fs::create_directory(programs, failed);
    for (const char* program : {"race", "race_static", "numa"}) {
      if (!failed) fs::copy_file(built / program, programs + "/" + program, failed);
      if (failed) return Status::IOError(std::string(program) + ": " + failed.message());
    }
    // The launcher runs the program that is linked statically.
    const std::string launched = "with the launcher, s";
    const std::string alone = "of the same program alone, s";
    const std::string plain = "of bin/race, s";
    const std::string over_alone = ", with the launcher over the same program alone";
    std::vector<RoundRatio> ratios = {
        {"phases, linked statically over dynamically", "phases " + alone, "phases " + plain}};
    for (const std::string what : {"phases", "CPU time of the phases", "whole command"}) {
      ratios.push_back({what + over_alone, what + " " + launched, what + " " + alone});
    }
    return rounds_.Run({round_count_},
                       {[&] {
                          return RunOne({programs + "/race", "--no-fio"}, plain);
                        },
                        [&] {
                          return RunOne({programs + "/race_static", "--no-fio"}, alone);
                        },
                        [&] {
                          return RunOne({programs + "/numa", "race", "--groups", "1"}, launched);
                        }},
                       ratios);
  }

  // Runs a program with the flags of this bench besides, and notes the seconds of its phases, which
  // is what the race reports, and of the whole command.
  Status RunOne(std::vector<std::string> command, const std::string& side) {
    const std::string dir = tmpfs_dir() + "/race-store";
    const std::string json_path = tmpfs_dir() + "/figures.json";
    const std::vector<std::string> flags = {"--dir",     dir,
                                            "--json",    json_path,
                                            "--threads", std::to_string(thread_count_()),
                                            "--num",     std::to_string(records_per_thread_()),
                                            "--seed",    std::to_string(seed_())};
    command.insert(command.end(), flags.begin(), flags.end());
    const uint64_t start_ns = NowNs();
    const ChildResult run = RunChild(command);
    const double whole_seconds = SecondsSince(start_ns);
    std::error_code ignored;
    fs::remove_all(dir, ignored);
    if (Interrupted()) return InterruptedStatus();
    const nlohmann::json figures = LoadJson(json_path);
    if (run.exit_code != 0 || !figures.is_object()) {
      return Status::IOError(command[0] + ": " + (run.started ? run.output : run.error));
    }
    const std::string note = figures.value("note", "");
    if (!note.empty()) return Status::IOError(command[0] + ": " + note);
    double phase_seconds = 0;
    double cpu_seconds = 0;
    for (const nlohmann::json& phase : PhasesOf(figures)) {
      phase_seconds += phase.at("seconds").get<double>();
      cpu_seconds += phase.at("cpu_seconds").get<double>();
    }
    rounds_.Note("phases " + side, phase_seconds);
    rounds_.Note("CPU time of the phases " + side, cpu_seconds);
    rounds_.Note("whole command " + side, whole_seconds);
    return Status::Ok();
  }

  Count32 thread_count_{this, "threads", 64, 4, "--threads"};
  Count records_per_thread_{this, "records_per_thread", 5000, 200, "--num", "records per thread"};
  Count32 round_count_{this, "rounds", 9, 1, "--rounds"};
  Count seed_{this, "", 1, kSame, "--seed", "", true};
  Path guests_path_{this, "", "", kSame, "--guests", "what scripts/numa_guest.py has found"};
};

}  // namespace

std::map<std::string, double> SharesOfGuests(const nlohmann::json& guests,
                                             std::vector<std::string>* errors) {
  // The least shares of all guests; the mean of the later instances of a shared program.
  std::map<std::string, double> shares = {{kAnonymous, 1}, {kNodes, 0}};
  std::vector<double> shared;
  const auto lower = [&shares](const char* claim, double share) {
    const auto found = shares.try_emplace(claim, 1).first;
    found->second = std::min(found->second, share);
  };
  try {
    for (const nlohmann::json& guest : guests.at("guests")) {
      const auto node_count = guest.at("nodes").get<uint32_t>();
      if (guest.at("ok").get<bool>()) {
        shares[kNodes] = std::max<double>(shares[kNodes], node_count);
      } else {
        errors->push_back("the guest with " + std::to_string(node_count) + " nodes failed");
      }
      for (const auto& [name, race] : guest.at("races").items()) {
        const auto text = race.at("text").get<std::string>();
        const double local = race.at("code_local").get<double>();
        lower(kAnonymous, race.at("anonymous_local").get<double>());
        if (text == "copies") lower(kTextCopies, local);
        if (text == "remap") lower(kTextRemap, local);
        if (text == "shared") shared.push_back(race.at("code_local_mean").get<double>());
      }
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  if (shared.empty() || !shares.contains(kTextCopies) || !shares.contains(kTextRemap)) return {};
  const double sum = std::accumulate(shared.begin(), shared.end(), 0.0);
  shares[kTextShared] = sum / static_cast<double>(shared.size());
  return shares;
}

std::unique_ptr<Bench> MakeNumaBench() { return std::make_unique<NumaBench>(); }

}  // namespace engine_race::harness
