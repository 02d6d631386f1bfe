#include "harness/guest/numa_test.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mount.h>
#include <sys/stat.h>

#include "harness/guest/numa_store.h"
#include "harness/guest/system.h"

namespace engine_race::guest {
namespace {

constexpr char kDevice[] = "/dev/nvme0n1";
constexpr char kMountPoint[] = "/mnt";
constexpr char kNuma[] = "/bin/numa";
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
  ::mkdir(kMountPoint, 0755);
  if (::mount(kDevice, kMountPoint, "ext4", 0, nullptr) != 0) EndWith("BROKEN no ext4");
  RunAll("/races", RunRace);
  RunAll("/stores", RunNumaStore);
  EndWith("DONE");
}

}  // namespace engine_race::guest
