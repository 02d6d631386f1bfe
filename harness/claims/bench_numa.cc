// The measured claims about NUMA nodes. Guests with several nodes show where text and memory of
// instances lie. A machine with one node shows the cost of the launcher.
//
// Shares come from the file that scripts/numa_guest.py has left. The cost compares races that run
// after each other, all on tmpfs.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/guest_shares.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using engine_race::Status;

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

class NumaBench final : public Bench {
 public:
  NumaBench() : Bench("numa", "where instances have their memory, and what one costs", kTargets) {}

  std::vector<Setting> Settings() override {
    return {{"threads", &thread_count_, 4, "--threads"},
            {"records_per_thread", &records_per_thread_, 200, "--num", "records per thread"},
            {"rounds", &round_count_, 1, "--rounds"},
            {"", &seed_, kSame, "--seed", "", true},
            {"", &guests_path_, kSame, "--guests", "what scripts/numa_guest.py has found"}};
  }

 private:
  // Of one race.
  struct Took {
    // Of its phases, which is what the race reports, and of the whole command.
    double phase_seconds = 0;
    double whole_seconds = 0;
    double cpu_seconds = 0;
  };

  std::vector<BenchPart> Parts() override {
    return {{"guests",
             {kTextShared, kTextCopies, kTextRemap, kAnonymous, kNodes},
             [this] { return TakeGuests(); },
             0,
             false,
             guests_path_.empty() ? "--guests is missing" : ""},
            {"launcher", {kCost}, [this] { return CompareLauncher(); }, 0, true}};
  }
  uint64_t TmpfsBytes() override {
    return StoreBytes(thread_count_ * records_per_thread_) + (uint64_t{256} << 20);
  }
  void AddTo(nlohmann::json* json) override {
    (*json)["guests"] = guests_;
    (*json)["machine"] = DescribeMachine(tmpfs_dir());
  }

  Status TakeGuests();
  // Races with the launcher and without it.
  Status CompareLauncher();
  // Runs a program with the flags of this bench besides.
  Status RunOne(std::vector<std::string> command, Took* took);

  uint32_t thread_count_ = 64;
  uint64_t records_per_thread_ = 5000;
  uint32_t round_count_ = 9;
  uint64_t seed_ = 1;
  std::string guests_path_;
  nlohmann::json guests_;
};

Status NumaBench::TakeGuests() {
  std::ifstream file(guests_path_);
  guests_ = nlohmann::json::parse(file, nullptr, false);
  // A discarded value would be written as text that is no JSON.
  if (guests_.is_discarded()) guests_ = nullptr;
  const std::optional<GuestShares> shares = SharesOfGuests(guests_);
  if (!shares) return Status::InvalidArgument("no shares of guests in '" + guests_path_ + "'");
  for (const uint32_t node_count : shares->failed_guests) {
    errors_.push_back("the guest with " + std::to_string(node_count) + " nodes failed");
  }
  rounds_.Note(kTextShared, shares->text_shared);
  rounds_.Note(kTextCopies, shares->text_copies);
  rounds_.Note(kTextRemap, shares->text_remap);
  rounds_.Note(kAnonymous, shares->anonymous);
  rounds_.Note(kNodes, shares->node_count);
  return Status::Ok();
}

Status NumaBench::RunOne(std::vector<std::string> command, Took* took) {
  const std::string dir = tmpfs_dir() + "/race-store";
  const std::string json_path = tmpfs_dir() + "/figures.json";
  const std::vector<std::string> flags = {"--dir",     dir,
                                          "--json",    json_path,
                                          "--threads", std::to_string(thread_count_),
                                          "--num",     std::to_string(records_per_thread_),
                                          "--seed",    std::to_string(seed_)};
  command.insert(command.end(), flags.begin(), flags.end());
  const uint64_t start_ns = NowNs();
  const ChildResult run = RunChild(command);
  took->whole_seconds = SecondsSince(start_ns);
  std::error_code ignored;
  fs::remove_all(dir, ignored);
  if (Interrupted()) return InterruptedStatus();
  std::ifstream file(json_path);
  const nlohmann::json figures = nlohmann::json::parse(file, nullptr, false);
  if (run.exit_code != 0 || !figures.is_object()) {
    return Status::IOError(command[0] + ": " + (run.started ? run.output : run.error));
  }
  const std::string note = figures.value("note", "");
  if (!note.empty()) return Status::IOError(command[0] + ": " + note);
  took->phase_seconds = took->cpu_seconds = 0;
  for (const nlohmann::json& phase : PhasesOf(figures)) {
    took->phase_seconds += phase.at("seconds").get<double>();
    took->cpu_seconds += phase.at("cpu_seconds").get<double>();
  }
  return Status::Ok();
}

Status NumaBench::CompareLauncher() {
  // All from memory, so that no side reads its program from the disk again after the page cache was
  // dropped.
  const std::string programs = tmpfs_dir() + "/programs";
  const fs::path built = fs::path(SelfPath()).parent_path();
  std::error_code failed;
  fs::create_directory(programs, failed);
  for (const char* program : {"race", "race_static", "numa"}) {
    if (!failed) fs::copy_file(built / program, programs + "/" + program, failed);
    if (failed) return Status::IOError(std::string(program) + ": " + failed.message());
  }
  Took plain;
  Took static_alone;
  Took launched;
  const std::vector<Turn> turns = {
      [&] {
        return RunOne({programs + "/race", "--no-fio"}, &plain);
      },
      [&] {
        return RunOne({programs + "/race_static", "--no-fio"}, &static_alone);
      },
      [&] {
        return RunOne({programs + "/numa", "race", "--groups", "1"}, &launched);
      }};
  return AlternatingRounds(round_count_, turns, [&](uint32_t round) {
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

}  // namespace

std::unique_ptr<Bench> MakeNumaBench() { return std::make_unique<NumaBench>(); }

}  // namespace harness
