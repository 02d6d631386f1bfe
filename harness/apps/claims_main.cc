// Measures the claims of docs/figures.md, bench by bench, and saves them with the figures behind
// them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/claims/benches.h"
#include "harness/claims/index_stores.h"
#include "harness/claims/space_stores.h"
#include "harness/race/runner.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

// The linker replaces the engine's calls of HashValue by calls of this function, only in this
// program. NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" uint64_t __real__ZN11engine_race9HashValueEPKvm(const void* value, size_t size);
extern "C" uint64_t __wrap__ZN11engine_race9HashValueEPKvm(const void* value, size_t size) {
  if (engine_race::harness::leave_out_checksums.load(std::memory_order_relaxed)) return 0;
  return __real__ZN11engine_race9HashValueEPKvm(value, size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "claims";
constexpr char kAll[] = "all";

using Benches = std::vector<std::unique_ptr<Bench>>;

Benches AllBenches() {
  Benches benches;
  for (const auto make :
       {MakeRaceBench, MakeBatchesBench, MakeSafetyBench, MakeIoBench, MakeScanBench, MakeL1Bench,
        MakeIndexBench, MakeNumaBench, MakeSpaceBench, MakeSizesBench, MakeCApiBench}) {
    benches.push_back(make());
  }
  return benches;
}

void PrintClaims(const Benches& benches) {
  for (const std::unique_ptr<Bench>& bench : benches) {
    for (const ClaimTarget& claim : bench->targets()) {
      std::printf("%-8s %-32s %-8s %s\n", bench->name(), claim.name, claim.aim, claim.what);
    }
  }
}

// What a command sets.
struct Flags {
  BenchOrder order;
  std::string out_dir;  // of all benches
  std::vector<std::pair<Setting, const CLI::Option*>> settings;
};

void AddOrder(const std::vector<std::string>& names, Flags* flags, CLI::App* app) {
  BenchOrder& order = flags->order;
  app->add_option("--dir", order.parent, "works in a fresh directory in here");
  app->add_option("--tmpfs", order.tmpfs, "works in a fresh directory in here, too: in memory");
  app->add_option("--only", order.only, "claims and parts to measure; by default all of them")
      ->delimiter(',')
      ->check(OneOf("claim", names));
  app->add_flag("--smoke", order.is_smoke, "everything once, tiny: no figure means much");
}

CLI::Option* AddFlag(const Setting& setting, CLI::App* app) {
  return std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        CLI::Option* const option = app->add_option(setting.flag, *value, setting.help);
        if constexpr (std::is_same_v<Value, uint64_t>) {
          if (setting.name.ends_with("_bytes")) option->transform(CLI::AsSizeValue(false));
        }
        if (std::is_arithmetic_v<Value> && !setting.may_be_zero) option->check(AboveZero());
        return option;
      },
      setting.value);
}

void AddFlags(Bench* bench, Flags* flags, CLI::App* app) {
  AddOrder(bench->Choices(), flags, app);
  app->add_option("--json", flags->order.json_path, "where the figures go; by default nowhere");
  for (const Setting& setting : bench->settings()) {
    flags->settings.emplace_back(setting, setting.flag.empty() ? nullptr : AddFlag(setting, app));
  }
}

int RunBench(Bench* bench, const Flags& flags) {
  for (const auto& [setting, option] : flags.settings) {
    const bool is_given = option != nullptr && option->count() > 0;
    if (flags.order.is_smoke && setting.smoke != kSame && !is_given) setting.Set(setting.smoke);
  }
  return bench->Run(flags.order);
}

// Runs each bench that has one of the claims. Returns the worst exit code.
int RunAll(const Benches& benches, const Flags& all, std::vector<Flags>* flags) {
  int code = kExitDone;
  for (size_t i = 0; i < benches.size(); ++i) {
    BenchOrder order = all.order;
    const std::vector<std::string> names = benches[i]->Choices();
    std::erase_if(order.only, [&](const std::string& name) {
      return std::find(names.begin(), names.end(), name) == names.end();
    });
    if (order.only.empty() && !all.order.only.empty()) continue;
    if (!all.out_dir.empty()) {
      order.json_path = all.out_dir + "/bench-" + benches[i]->name() + ".json";
    }
    (*flags)[i].order = std::move(order);
    std::printf("%s\n", benches[i]->name());
    code = std::max(code, RunBench(benches[i].get(), (*flags)[i]));
    if (code == kExitInterrupted) break;
  }
  return code;
}

int ClaimsMain(std::vector<char*> arguments) {
  const Benches benches = AllBenches();
  std::vector<Flags> flags(benches.size());
  Flags all;
  std::vector<std::string> all_names;
  bool lists = false;
  CLI::App app("Measures what the documentation claims: each side beside the other, in rounds.");
  app.add_flag("--list", lists, "prints all claims with their aims");
  for (size_t i = 0; i < benches.size(); ++i) {
    AddFlags(benches[i].get(), &flags[i],
             app.add_subcommand(benches[i]->name(), benches[i]->about()));
    const std::vector<std::string> names = benches[i]->Choices();
    all_names.insert(all_names.end(), names.begin(), names.end());
  }
  CLI::App* const every =
      app.add_subcommand(kAll, "all benches, or those with the claims of --only; may be left out");
  AddOrder(all_names, &all, every);
  every->add_option("--out", all.out_dir, "the directory of the figures, bench-NAME.json each");
  const auto argc = static_cast<int>(arguments.size());
  if (const auto code = ParseCommandLine(kProgram, argc, arguments.data(), &app)) return *code;
  if (lists) {
    PrintClaims(benches);
    return kExitDone;
  }
  for (size_t i = 0; i < benches.size(); ++i) {
    if (app.got_subcommand(benches[i]->name())) return RunBench(benches[i].get(), flags[i]);
  }
  if (every->parsed()) return RunAll(benches, all, &flags);
  std::fprintf(stderr, "%s: name a bench\n%s", kProgram, app.help().c_str());
  return kExitRefused;
}

int Main(int argc, char** argv) {
  ChildWorks works = IndexWorks();
  works.merge(SpaceWorks());
  works[kPhaseWork] = RunPhaseWork;
  if (const auto code = ChildMain(argc, argv, works)) return *code;
  std::vector<char*> arguments(argv, argv + argc);
  // Flags without a bench are those of all benches.
  char all[] = "all";
  const auto is_of_all = [](const char* flag) {
    return std::strncmp(flag, "--only", 6) == 0 || std::strncmp(flag, "--smoke", 7) == 0 ||
           std::strncmp(flag, "--out", 5) == 0;
  };
  if (argc > 1 && is_of_all(argv[1])) arguments.insert(arguments.begin() + 1, all);
  return ClaimsMain(arguments);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
