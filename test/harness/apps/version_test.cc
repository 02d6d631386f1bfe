// The flag --version of the programs that users install, and of those with subcommands.
#include <gtest/gtest.h>

#include <string>

#include "harness/system/child_process.h"
#include "include/engine_race_c.h"
#include "test/harness/program_fixture.h"

namespace harness {
namespace {

class VersionTest : public testing::TestWithParam<const char*> {};

TEST_P(VersionTest, PrintsNameAndVersion) {
  const std::string program = ProgramPath(GetParam());
  if (program.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  const ChildResult run = RunChild({program, "--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.output, std::string(GetParam()) + " (engine_race) " + engine_race_version() + "\n");
}

INSTANTIATE_TEST_SUITE_P(Programs, VersionTest, testing::Values("store", "bench", "race", "numa"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace harness
