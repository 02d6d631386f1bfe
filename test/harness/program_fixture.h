// Runs a whole program with a directory of its own.
#ifndef TEST_HARNESS_PROGRAM_FIXTURE_H_
#define TEST_HARNESS_PROGRAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/numa/topology.h"
#include "harness/measure/table.h"
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

// A test of the program of this name, which is skipped where there is none.
class ProgramTest : public ::testing::Test {
 protected:
  explicit ProgramTest(const std::string& name,
                       const std::filesystem::path& parent = test::FastParent())
      : program_(ProgramPath(name)), temp_(parent) {}

  void SetUp() override {
    if (program_.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  }

  // Runs the program with all of these arguments.
  ChildResult RunWith(std::vector<std::string> args, const std::vector<std::string>& more) const {
    args.insert(args.begin(), program_);
    args.insert(args.end(), more.begin(), more.end());
    return RunChild(args);
  }

  const std::string program_;
  const test::TempDir temp_;
};

// Runs `bin/lab COMMAND` and reads the report that it writes.
class LabFixture : public ProgramTest {
 protected:
  explicit LabFixture(std::string command) : ProgramTest("lab"), command_(std::move(command)) {
    std::filesystem::create_directory(dir_);
  }

  ChildResult Run(const std::vector<std::string>& flags) const {
    return RunWith({command_, "--dir", dir_, "--json", json_}, flags);
  }
  nlohmann::json Report() const { return LoadJson(json_); }

  const std::string command_;
  const std::string dir_ = temp_.Join("work");
  const std::string json_ = temp_.Join("report.json");
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_PROGRAM_FIXTURE_H_
