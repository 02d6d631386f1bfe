// `bin/race COMMAND` as a whole, run in a directory of its own, and the report that it leaves.
#ifndef TEST_HARNESS_RACE_RACE_COMMAND_FIXTURE_H_
#define TEST_HARNESS_RACE_RACE_COMMAND_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/system/child_process.h"
#include "test/test_util.h"

namespace harness {

class RaceCommandFixture : public ::testing::Test {
 protected:
  explicit RaceCommandFixture(std::string command) : command_(std::move(command)) {}

  void SetUp() override {
    const char* bin_dir = std::getenv("ENGINE_BIN_DIR");
    if (bin_dir == nullptr) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
    program_ = std::string(bin_dir) + "/race";
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
  engine_race::test::TempDir temp_{engine_race::test::FastParent()};
  std::string program_;
  std::string dir_;
  std::string json_;
};

}  // namespace harness

#endif  // TEST_HARNESS_RACE_RACE_COMMAND_FIXTURE_H_
