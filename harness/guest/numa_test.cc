#include "harness/guest/numa_test.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/guest/system.h"

namespace engine_race::guest {
namespace {

constexpr char kDevice[] = "/dev/nvme0n1";
constexpr char kMountPoint[] = "/mnt";
constexpr char kRaces[] = "/races";
constexpr char kNuma[] = "/bin/numa";
// A guest whose host has forgotten it ends by itself.
constexpr uint64_t kLifeMs = 900'000;

int RunProgram(const std::vector<std::string>& args) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv;
    argv.reserve(args.size() + 1);
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The file without its line ends and what indents its lines.
std::string OneLine(const std::string& path) {
  std::ifstream file(path);
  std::string all;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) all += line.substr(begin);
  }
  return all;
}

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

}  // namespace

[[noreturn]] void RunNumaTest() {
  ResetAfter(kLifeMs);
  ::mkdir(kMountPoint, 0755);
  if (::mount(kDevice, kMountPoint, "ext4", 0, nullptr) != 0) EndWith("BROKEN no ext4");
  std::ifstream races(kRaces);
  for (std::string line; std::getline(races, line);) {
    std::istringstream words(line);
    std::string name;
    std::vector<std::string> flags;
    words >> name;
    for (std::string word; words >> word;) flags.push_back(word);
    if (!name.empty()) RunRace(name, flags);
  }
  EndWith("DONE");
}

}  // namespace engine_race::guest
