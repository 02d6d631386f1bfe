#include "engine_race/base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace engine_race {
namespace {

TEST(ProcessTest, ItsTextNamesIt) {
  for (const ProcessName& process : {
           ProcessName{.number = 4711, .pid_namespace = 4026531836, .program = "python3"},
           ProcessName{.number = 1, .pid_namespace = 0, .program = "a b  c"},
           ProcessName{.number = INT32_MAX, .pid_namespace = UINT64_MAX, .program = ""},
           ThisProcess(),
       }) {
    EXPECT_EQ(ParseProcessName(ToText(process)), process) << ToText(process);
  }
  EXPECT_EQ(ToText({.number = 4711, .pid_namespace = 4026531836, .program = "python3"}),
            "4711 4026531836 python3");
}

TEST(ProcessTest, TheProgramEndsWithTheLine) {
  const ProcessName process = {.number = 7, .pid_namespace = 8, .program = "race"};
  EXPECT_EQ(ParseProcessName("7 8 race\n"), process);
  EXPECT_EQ(ParseProcessName("7 8 race\n9 10 other\n"), process);
}

// A file of another program, or of a store that was damaged.
TEST(ProcessTest, OtherTextsNameNoProcess) {
  for (const char* text :
       {"", " ", "\n", "7", "7 ", "7 8", "7\n8\nrace", "race", "race 7 8", "-7 8 race", "+7 8 race",
        " 7 8 race", "7  8 race", "7 -8 race", "0x7 8 race", "7.0 8 race", "7 8race x",
        // More than a process or a namespace can have.
        "2147483648 8 race", "18446744073709551616 8 race", "7 18446744073709551616 race"}) {
    EXPECT_EQ(ParseProcessName(text), ProcessName()) << "'" << text << "'";
  }
  EXPECT_EQ(ParseProcessName(std::string("7\0 8 race", 9)), ProcessName());
}

// The name comes from a file that others may have written, and goes to terminals.
TEST(ProcessTest, TheNameOfAProgramIsPrintable) {
  EXPECT_EQ(ParseProcessName("7 8 \x1b[31mred\x7f\xff").program, "?[31mred??");
  EXPECT_EQ(ParseProcessName(std::string("7 8 a\0b\tc\r", 10)).program, "a?b?c?");
  EXPECT_EQ(ParseProcessName("7 8 " + std::string(100000, 'x')).program.size(), 100000U);
}

TEST(ProcessTest, ThisProcessRuns) {
  const ProcessName self = ThisProcess();
  EXPECT_EQ(self.number, static_cast<uint64_t>(::getpid()));
  EXPECT_EQ(self.program, program_invocation_short_name);
  EXPECT_TRUE(IsRunning(self.number));
}

TEST(ProcessTest, AProcessThatWasCollectedDoesNotRun) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsRunning(static_cast<uint64_t>(child)));
}

}  // namespace
}  // namespace engine_race
