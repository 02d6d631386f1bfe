#include "harness/guest/numa_store.h"

#include <cstdint>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine_race/base/placement.h"
#include "engine_race/base/sys.h"
#include "harness/guest/system.h"

namespace engine_race::guest {
namespace {

constexpr char kMountPoint[] = "/mnt";
constexpr char kRace[] = "/bin/race_static";
constexpr char kNuma[] = "/bin/numa";
// The race's ends of its gate: above those of the pipes, so that none is closed by the other.
constexpr int kRaceHearsFd = 40;
constexpr int kRaceSaysFd = 41;

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

}  // namespace

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

}  // namespace engine_race::guest
