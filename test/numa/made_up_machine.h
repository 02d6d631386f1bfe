// A tree of files as sysfs and /proc show them, of a machine that a test describes.
#ifndef TEST_NUMA_MADE_UP_MACHINE_H_
#define TEST_NUMA_MADE_UP_MACHINE_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/test_util.h"

namespace engine_race::test {

class MadeUpMachine {
 public:
  MadeUpMachine() { std::filesystem::create_directories(root() + "/thread-self"); }

  // Works as a root of sysfs and of /proc.
  std::string root() const { return dir_.path() + "/machine"; }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  // `target` is relative to the root.
  void Link(const std::string& path, const std::string& target) const {
    const std::filesystem::path link = root() + "/" + path;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_directories(root() + "/" + target);
    std::filesystem::create_symlink(root() + "/" + target, link);
  }

  void SetOnline(const std::string& nodes) const {
    Write("devices/system/node/online", nodes + "\n");
  }

  void AddNode(uint32_t id, const std::string& cpus, uint64_t memory_kb,
               const std::string& distances) const {
    const std::string node = std::to_string(id);
    const std::string directory = "devices/system/node/node" + node;
    Write(directory + "/cpulist", cpus + "\n");
    Write(directory + "/meminfo", "\nNode " + node +
                                      " MemTotal:       " + std::to_string(memory_kb) +
                                      " kB\nNode " + node + " MemFree:        1 kB\n");
    if (!distances.empty()) Write(directory + "/distance", distances + "\n");
  }

  void SetStatus(const std::string& text) const { Write("thread-self/status", text); }

 private:
  TempDir dir_;
};

}  // namespace engine_race::test

#endif  // TEST_NUMA_MADE_UP_MACHINE_H_
