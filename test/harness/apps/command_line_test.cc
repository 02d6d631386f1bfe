// What the programs say of command lines that they cannot take.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "harness/system/child_process.h"
#include "harness/system/exit_codes.h"
#include "include/engine_race_c.h"
#include "test/harness/program_fixture.h"

namespace engine_race::harness {
namespace {

const std::vector<std::string> kPrograms = {"bench", "compare", "crash", "lab",
                                            "numa",  "profile", "race",  "store"};

// Needs programs.
class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (ProgramPath("store").empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  }

  static ChildResult Run(const std::string& program, std::vector<std::string> args) {
    args.insert(args.begin(), ProgramPath(program));
    return RunWithErrors(args);
  }

  static std::vector<std::string> LinesOf(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  // The words before a command's flags: none for the program itself.
  static std::vector<std::vector<std::string>> CommandsOf(const std::string& program) {
    std::vector<std::vector<std::string>> commands = {{}};
    bool has_begun = false;
    for (const std::string& line : LinesOf(Run(program, {"--help"}).output)) {
      if (line.empty()) has_begun = false;
      if (has_begun) commands.push_back({line.substr(2, line.find(' ', 2) - 2)});
      if (line == "Subcommands:") has_begun = true;
    }
    return commands;
  }
};

TEST_F(CommandLineTest, AMistypedNameIsNamedWithTheOneThatWasMeant) {
  const struct {
    const char* program;
    std::vector<std::string> args;
    const char* wanted;
  } cases[] = {
      {"store", {"verfy", "/none"}, "store: unknown command verfy; did you mean verify?\n"},
      {"store", {"frobnicate"}, "store: unknown command frobnicate; there are verify, copy, "},
      {"store", {"verify", "--bukets", "/none"}, "store: unknown flag --bukets"},
      {"store", {"dump", "--bukets"}, "unknown flag --bukets; did you mean --buckets?\n"},
      {"lab", {"oi"}, "lab: unknown command oi; did you mean io?\n"},
      {"numa", {"reprot", "1"}, "numa: unknown command reprot; did you mean report?\n"},
      // A command that the help does not show is none that was meant.
      {"numa", {"boundd"}, "numa: unknown command boundd; there are report, race, copy\n"},
      {"bench",
       {"--benchmarks", "fillrandm"},
       "bench: unknown benchmark fillrandm; did you mean fillrandom?\n"},
      {"bench", {"--benchmarks=frobnicate"}, "unknown benchmark frobnicate; there are fillseq, "},
      {"bench", {"--keys", "dens"}, "--keys: unknown layout dens; did you mean dense?\n"},
      {"compare",
       {"--stores", "engine_rcae"},
       "unknown store engine_rcae; did you mean engine_race?\n"},
      {"compare", {"--phases", "wriet"}, "unknown phase wriet; did you mean write?\n"},
      {"profile", {"sek"}, "profile: unknown phase sek; did you mean seek?\n"},
      {"race", {"--keys", "unifrom"}, "--keys: unknown shape unifrom; did you mean uniform?\n"},
      {"race", {"--thread", "4"}, "race: unknown flag --thread; did you mean --threads?\n"},
      {"crash", {"--keys", "skewd"}, "--keys: unknown choice skewd; did you mean skewed?\n"},
  };
  for (const auto& [program, args, wanted] : cases) {
    const ChildResult run = Run(program, args);
    EXPECT_EQ(run.exit_code, kExitRefused) << program << " " << args[0];
    EXPECT_NE(run.output.find(wanted), std::string::npos) << run.output;
  }
}

TEST_F(CommandLineTest, ANumberThatIsNoneOrTooLargeIsRefused) {
  const struct {
    const char* program;
    std::vector<std::string> args;
    const char* wanted;
  } cases[] = {
      {"numa", {"report", "abc"}, "numa: pid: 'abc' is no whole number\n"},
      {"numa", {"report", "0"}, "numa: pid: '0' is not above 0\n"},
      {"numa", {"report", "1.5"}, "numa: pid: '1.5' is no whole number\n"},
      {"numa", {"report", "9223372036854775808"}, "is too large a number\n"},
      {"race", {"--seed", "-1"}, "race: --seed: '-1' is no whole number from 0 on\n"},
      {"race", {"--seed", "18446744073709551616"}, "is too large a number\n"},
      {"race", {"--memory-limit", "-1"}, "race: --memory-limit: '-1' is no size\n"},
      {"bench", {"--duration", "nan"}, "bench: --duration: 'nan' is no number\n"},
      {"bench", {"--rate", "1e999"}, "bench: --rate: '1e999' is too large a number\n"},
      {"compare", {"--gib", "-1"}, "compare: --gib: '-1' is below 0\n"},
      {"profile", {"read", "--threads", "0"}, "profile: --threads: '0' is not above 0\n"},
  };
  for (const auto& [program, args, wanted] : cases) {
    const ChildResult run = Run(program, args);
    EXPECT_EQ(run.exit_code, kExitRefused) << program << " " << args[0] << " " << args[1];
    EXPECT_NE(run.output.find(wanted), std::string::npos) << run.output;
  }
}

// The help names the type of each flag that has a value.
TEST_F(CommandLineTest, EachFlagThatIsANumberRefusesWhatIsNone) {
  size_t tried_count = 0;
  for (const std::string& program : kPrograms) {
    for (const std::vector<std::string>& command : CommandsOf(program)) {
      std::vector<std::string> args = command;
      args.push_back("--help");
      for (const std::string& line : LinesOf(Run(program, args).output)) {
        const size_t flag = line.find("--");
        if (flag == std::string::npos || line.find_first_not_of(' ') != flag) continue;
        std::istringstream words(line);
        std::string name;
        std::string type;
        words >> name >> type;
        if (!type.starts_with("UINT") && !type.starts_with("INT") && !type.starts_with("FLOAT")) {
          continue;
        }
        for (const std::string text : {"abc", "nan", "1x", ""}) {
          args.resize(command.size());
          args.push_back(name + "=" + text);
          const ChildResult run = Run(program, args);
          EXPECT_EQ(run.exit_code, kExitRefused) << program << " " << args.back();
          EXPECT_NE(run.output.find(name), std::string::npos) << run.output;
          EXPECT_LT(run.output.size(), 300u) << run.output;
        }
        ++tried_count;
      }
    }
  }
  EXPECT_GT(tried_count, 50u);
}

TEST_F(CommandLineTest, TheHelpHasTheExitCodes) {
  for (const std::string& program : kPrograms) {
    for (std::vector<std::string> args : CommandsOf(program)) {
      args.push_back("--help");
      const ChildResult run = Run(program, args);
      EXPECT_EQ(run.exit_code, kExitDone) << program;
      EXPECT_NE(run.output.find(std::string("\n") + kExitCodesHelp), std::string::npos)
          << run.output;
    }
  }
}

// The flag --version of every program but the benches, which scripts/test_benches.sh asks, and
// bin/report, which has a test of its own.

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
