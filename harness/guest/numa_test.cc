#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine_race/base/placement.h"
#include "engine_race/base/sys.h"
#include "harness/guest/system.h"

namespace engine_race::guest {
namespace {

constexpr char kDevice[] = "/dev/nvme0n1";
constexpr char kMountPoint[] = "/mnt";
constexpr char kNuma[] = "/bin/numa";
constexpr char kRace[] = "/bin/race_static";
// The race's ends of its gate: above those of the pipes, so that none is closed by the other.
constexpr int kRaceHearsFd = 40;
constexpr int kRaceSaysFd = 41;
// A guest whose host has forgotten it ends by itself.
constexpr uint64_t kLifeMs = 1'200'000;

void RunRace(const std::string& name, const std::vector<std::string>& flags) {
  const std::string dir = std::string(kMountPoint) + "/" + name;
  const std::string json = dir + ".json";
  std::vector<std::string> args = {kNuma, "race", "--dir", dir, "--json", json};
  args.insert(args.end(), flags.begin(), flags.end());
  Say("RACE " + name);
  const int code = RunProgram(args);
  if (std::filesystem::exists(json)) Say("FIGURES " + name + " " + OneLine(json));
  Say("END " + name + " " + std::to_string(code));
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}

struct Pipe {
  UniqueFd out;
  UniqueFd in;
};

Pipe MakePipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) EndWith("BROKEN no pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// In the child that becomes the race.
[[noreturn]] void BecomeRace(const std::vector<std::string>& args, const Pipe& to_race,
                             const Pipe& from_race, const std::string& log_path) {
  const std::vector<uint32_t> first = {0};
  // Never left: the race inherits it.
  const PolicyScope scope(Placement(Placement::Mode::kPrefer, first));
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool ready = scope.error() == 0 && ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 &&
                     ::dup2(log, STDOUT_FILENO) >= 0 && ::dup2(log, STDERR_FILENO) >= 0 &&
                     ::dup2(to_race.out.get(), kRaceHearsFd) >= 0 &&
                     ::dup2(from_race.in.get(), kRaceSaysFd) >= 0;
  if (!ready) ::_exit(126);
  BecomeProgram(args);
}

// Reports on the process of a phase that is done; `line` is "done PHASE PID".
void Report(const std::string& name, const std::string& line) {
  std::istringstream words(line);
  std::string done;
  std::string phase;
  std::string pid;
  words >> done >> phase >> pid;
  const std::string json = std::string(kMountPoint) + "/report.json";
  if (RunProgram({kNuma, "report", pid, "--json", json}) == 0) {
    Say("REPORT " + name + " " + phase + " " + OneLine(json));
  }
}

// A race of one store that places its memory itself, in a guest with several NUMA nodes.
//
// The guest runs bin/race alone, without numactl, and plays the launcher at its gate. At the end of
// each phase the store is still open. The guest then says "REPORT name phase JSON": what `numa
// report` tells of the phase's process. At last it says "END name CODE".
//
// The race begins with a policy that prefers node 0, so that no memory lies on the store's nodes by
// chance. It has no huge pages: memory that is spread well over a few of them looks uneven.
void RunNumaStore(const std::string& name, const std::vector<std::string>& flags) {
  const std::string dir = std::string(kMountPoint) + "/" + name;
  const std::string log_path = dir + ".log";
  std::vector<std::string> args = {
      kRace,      "--dir",  dir,
      "--no-fio", "--gate", std::to_string(kRaceHearsFd) + "," + std::to_string(kRaceSaysFd)};
  args.insert(args.end(), flags.begin(), flags.end());
  Say("STORE " + name);
  Pipe to_race = MakePipe();
  Pipe from_race = MakePipe();
  const pid_t race = ::fork();
  if (race == 0) BecomeRace(args, to_race, from_race, log_path);
  to_race.out.Reset();
  from_race.in.Reset();
  std::string line;
  for (char byte = 0; ::read(from_race.out.get(), &byte, 1) == 1;) {
    if (byte != '\n') {
      line += byte;
      continue;
    }
    if (line.starts_with("done ")) Report(name, line);
    line.clear();
    if (::write(to_race.in.get(), "\n", 1) != 1) break;
  }
  const int code = WaitFor(race);
  if (code != 0) Say(OneLine(log_path));
  Say("END " + name + " " + std::to_string(code));
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}

// Runs the lines of a file, each a name and flags.
template <typename Run>
void RunAll(const char* path, const Run& run) {
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::vector<std::string> flags;
    words >> name;
    for (std::string word; words >> word;) flags.push_back(word);
    if (!name.empty()) run(name, flags);
  }
}

}  // namespace

[[noreturn]] void RunNumaTest() {
  ResetAfter(kLifeMs);
  if (!Mount(kDevice, kMountPoint, "ext4").ok()) EndWith("BROKEN no ext4");
  RunAll("/races", RunRace);
  RunAll("/stores", RunNumaStore);
  EndWith("DONE");
}

}  // namespace engine_race::guest
