// Runs the whole program bin/store on stores below a directory of the test's own.
#ifndef TEST_HARNESS_APPS_STORE_FIXTURE_H_
#define TEST_HARNESS_APPS_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/store.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {

class StoreFixture : public ProgramTest {
 protected:
  explicit StoreFixture(const std::filesystem::path& parent = test::FastParent())
      : ProgramTest("store", parent) {}

  // Runs the program with these arguments and this standard input. It must end with the exit code
  // `wanted`. Returns what it prints, also to its standard error.
  std::string OutputOf(const std::vector<std::string>& args, int wanted,
                       std::string_view input = {}) const {
    WriteFile("input", input);
    std::vector<std::string> words = {"bash", "-c", R"(exec "$@" < "$0" 2>&1)", temp_.Join("input"),
                                      program_};
    words.insert(words.end(), args.begin(), args.end());
    const ChildResult run = RunChild(words);
    EXPECT_EQ(run.exit_code, wanted) << run.output;
    return run.output;
  }
  // OutputOf, which must have `part`.
  void ExpectOutput(const std::vector<std::string>& args, int wanted, const std::string& part,
                    std::string_view input = {}) const {
    const std::string output = OutputOf(args, wanted, input);
    EXPECT_NE(output.find(part), std::string::npos) << output;
  }

  std::unique_ptr<Store> Open(Options options = {}) const {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options, store_dir(), &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }
  std::string store_dir() const { return temp_.Join("store"); }

  std::string WriteFile(const std::string& name, std::string_view text) const {
    std::ofstream(temp_.Join(name), std::ios::binary) << text;
    return temp_.Join(name);
  }
  std::string ReadFile(const std::string& name) const {
    return LoadText(temp_.Join(name)).value_or("");
  }
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_APPS_STORE_FIXTURE_H_
