// Runs a whole program with a directory of its own.
#ifndef TEST_HARNESS_PROGRAM_FIXTURE_H_
#define TEST_HARNESS_PROGRAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/numa/topology.h"
#include "harness/system/child_process.h"
#include "test/test_util.h"

namespace engine_race::harness {

// Empty when no programs were built beside the tests.
inline std::string ProgramPath(const std::string& name) {
  const char* bin_dir = std::getenv("ENGINE_BIN_DIR");
  return bin_dir == nullptr ? std::string() : std::string(bin_dir) + "/" + name;
}

// Runs a program. Its output has what it writes to its standard error, too.
inline ChildResult RunWithErrors(const std::vector<std::string>& args) {
  std::vector<std::string> words = {"bash", "-c", "exec \"$0\" \"$@\" 2>&1"};
  words.insert(words.end(), args.begin(), args.end());
  return RunChild(words);
}

// Whether programs know the machine's nodes, so that they refuse one that is missing.
inline bool KernelShowsNodes() {
  numa::Topology topology;
  return numa::ReadTopology(numa::kSysfsRoot, &topology).ok() && topology.from_kernel;
}

// Runs `bin/lab COMMAND` and reads the report that it writes.
class LabFixture : public ::testing::Test {
 protected:
  explicit LabFixture(std::string command) : command_(std::move(command)) {}

  void SetUp() override {
    program_ = ProgramPath("lab");
    if (program_.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
    dir_ = temp_.Join("work");
    std::filesystem::create_directory(dir_);
    json_ = temp_.Join("report.json");
  }

  ChildResult Run(const std::vector<std::string>& flags) const {
    std::vector<std::string> args = {program_, command_, "--dir", dir_, "--json", json_};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunChild(args);
  }

  nlohmann::json Report() const {
    std::ifstream file(json_);
    return nlohmann::json::parse(file, nullptr, false);
  }

  const std::string command_;
  test::TempDir temp_{test::FastParent()};
  std::string program_;
  std::string dir_;
  std::string json_;
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_PROGRAM_FIXTURE_H_
