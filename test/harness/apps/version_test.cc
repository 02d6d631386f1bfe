// The flag --version of every program but the benches, which scripts/test_benches.sh asks, and
// bin/report, which has a test of its own.
#include <gtest/gtest.h>

#include <string>

#include "harness/system/child_process.h"
#include "include/engine_race_c.h"
#include "test/harness/program_fixture.h"

namespace engine_race::harness {
namespace {

class VersionTest : public testing::TestWithParam<const char*> {};

TEST_P(VersionTest, PrintsNameAndVersion) {
  const std::string program = ProgramPath(GetParam());
  if (program.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  const ChildResult run = RunChild({program, "--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.output, std::string(GetParam()) + " (engine_race) " + engine_race_version() + "\n");
}

INSTANTIATE_TEST_SUITE_P(Programs, VersionTest,
                         testing::Values("bench", "compare", "crash", "lab", "numa", "profile",
                                         "race", "store"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace engine_race::harness
