#include "harness/experiments/io/lab.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <sstream>
#include <system_error>

#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "lab io";

constexpr char kMemoryDir[] = "/dev/shm";
constexpr uint64_t kSmokeRecords = 4096;
constexpr double kSmokeSeconds = 0.01;

bool ParseNumber(const std::string& text, int* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end && *number >= 1 && *number <= kIoExperimentCount;
}

IoSpaceOptions SpaceOptions(const IoFlags& flags, const std::string& medium) {
  IoSpaceOptions options;
  options.medium = medium;
  options.raw_bytes = flags.config.record_count * kValueSize;
  if (flags.config.smoke) options.stand_in_count = 2;
  if (medium == "tmpfs") {
    options.parent = kMemoryDir;
  } else {
    options.parent = flags.dir;
    options.paths = flags.paths;
  }
  return options;
}

// At most two stores at once, of which one is overwritten once, and the noise.
uint64_t NeededBytes(const IoFlags& flags) {
  return StoreBytes(6 * flags.config.record_count) + (uint64_t{256} << 20);
}

// Fails when the medium cannot be used.
Status RunMedium(const IoFlags& flags, const std::vector<int>& numbers, const std::string& medium,
                 Experiments* results) {
  IoSpace space(SpaceOptions(flags, medium));
  ENGINE_RACE_RETURN_IF_ERROR(space.Prepare());
  const std::string no_room = WhyNoRoom({{space.dir(), NeededBytes(flags)}});
  if (!no_room.empty()) {
    return Status::Full(medium + ": " + no_room + ": choose another --dir or fewer --records");
  }
  const IoLab lab(flags.config, &space);
  for (const int number : numbers) {
    if (Interrupted()) break;
    for (Experiment& experiment : RunIoExperiment(number, lab)) {
      if (experiment.rows.empty() && Interrupted()) continue;
      std::printf("%s", ExperimentText(experiment).c_str());
      std::fflush(stdout);
      results->push_back(std::move(experiment));
    }
  }
  return Status::Ok();
}

nlohmann::json Describe(const IoFlags& flags, const Experiments& results, bool ok) {
  return {{"ok", ok},
          {"interrupted", Interrupted()},
          {"machine", DescribeMachine(flags.dir)},
          {"config",
           {{"records", flags.config.record_count},
            {"seconds", flags.config.seconds},
            {"smoke", flags.config.smoke},
            {"dir", flags.dir},
            {"paths", flags.paths}}},
          {"experiments", results}};
}

}  // namespace

bool ParseExperiments(const std::string& text, std::vector<int>* numbers) {
  std::set<int> chosen;
  if (text == "all") {
    for (int i = 1; i <= kIoExperimentCount; ++i) chosen.insert(i);
  }
  std::istringstream parts(text == "all" ? "" : text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!ParseNumber(part.substr(0, dash), &first)) return false;
    last = first;
    if (dash != std::string::npos && !ParseNumber(part.substr(dash + 1), &last)) return false;
    for (int i = first; i <= last; ++i) chosen.insert(i);
  }
  numbers->assign(chosen.begin(), chosen.end());
  return !chosen.empty();
}

CLI::App* AddIoCommand(CLI::App* app, IoFlags* flags) {
  CLI::App* const io = app->add_subcommand(
      "io", "what the disks can do, and which way of asking them gets it: ten experiments");
  io->add_option("--experiment", flags->experiments, "which: all, or numbers as in 1,4-6");
  io->add_option("--dir", flags->dir, "works in a fresh directory in here, removed at the end");
  io->add_option("--paths", flags->paths, "directories, best each on a device of its own")
      ->delimiter(',');
  io->add_option("--device", flags->config.device,
                 "a raw device, say /dev/nvme0n1, only read: experiment 4 also without files");
  io->add_option("--records", flags->config.record_count, "of 4 KiB, in a store or a file")
      ->check(CLI::Range(uint64_t{1024}, uint64_t{1} << 40));
  io->add_option("--seconds", flags->config.seconds, "of each point")
      ->check(CLI::Range(0.001, 3600.0));
  io->add_option("--json", flags->json_path, "also write the results into this file");
  io->add_flag("--tmpfs", flags->has_tmpfs,
               "also against /dev/shm, where the device costs nothing");
  io->add_flag("--smoke", flags->config.smoke, "everything once, tiny: no figure means much");
  return io;
}

int RunIo(IoFlags flags) {
  std::vector<int> numbers;
  if (!ParseExperiments(flags.experiments, &numbers)) {
    return Refuse(kProgram, "--experiment takes all, or numbers from 1 to " +
                                std::to_string(kIoExperimentCount) + " as in 1,4-6");
  }
  if (flags.config.smoke) {
    flags.config.record_count = kSmokeRecords;
    flags.config.seconds = kSmokeSeconds;
  }
  CatchInterrupts();
  Experiments results;
  const Status on_disk = RunMedium(flags, numbers, "disk", &results);
  if (!on_disk.ok()) return Refuse(kProgram, on_disk.message());
  const Status on_tmpfs =
      flags.has_tmpfs ? RunMedium(flags, numbers, "tmpfs", &results) : Status::Ok();
  if (!on_tmpfs.ok()) std::printf("tmpfs: not measured: %s\n", on_tmpfs.message().c_str());
  const bool ok = std::all_of(results.begin(), results.end(), [](const Experiment& experiment) {
    return ErrorCount(experiment) == 0;
  });
  if (!SaveJson(Describe(flags, results, ok), flags.json_path)) {
    return Refuse(kProgram, "cannot write " + flags.json_path);
  }
  if (Interrupted()) return kExitInterrupted;
  return ok ? kExitDone : kExitFailure;
}

}  // namespace engine_race::harness
