// Programs with long work show progress and the time left on a terminal, and nothing in a pipe.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/harness/program_fixture.h"
#include "test/harness/terminal.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

// "verify    43%  812.4 MB/s  198.3k/s  3 s left"
// bin/store counts records alone: it need not know yet how large they are.
std::regex ProgressLine(const std::string& label, const std::string& bytes = "") {
  return std::regex(label + R"( +\d+%  )" + bytes + R"([\d.]+k/s  \d+ s left)");
}

bool HasProgress(const std::string& output) {
  return output.find('\033') != std::string::npos || output.find("s left") != std::string::npos;
}

class TerminalProgressTest : public ProgramTest {
 protected:
  // Records of several of the pieces that are verified at once.
  static constexpr uint64_t kRecordCount = 600;

  TerminalProgressTest() : ProgramTest("store") {}

  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    Options options;
    options.bucket_count = 1;
    options.file_count = 1;
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, temp_.Join("store"), &store).ok());
    for (uint64_t i = 0; i < kRecordCount; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i), ValueOf(i, 1)).ok());
    }
  }
};

TEST_F(TerminalProgressTest, VerifyShowsTheTimeLeft) {
  const std::vector<std::string> verify = {program_, "verify", temp_.Join("store")};
  const TerminalResult shown = RunOnTerminal(verify);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(std::regex_search(shown.output, ProgressLine("verify"))) << shown.output;
  // The line is cleared before the totals are printed.
  EXPECT_NE(shown.output.find("\033[K600 records verified"), std::string::npos) << shown.output;
  const ChildResult piped = RunWithErrors(verify);
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_TRUE(piped.output.starts_with("600 records verified")) << piped.output;
  EXPECT_FALSE(HasProgress(piped.output)) << piped.output;
}

// A line that wraps could not be cleared.
TEST_F(TerminalProgressTest, TheLineIsCutToTheWidthOfTheTerminal) {
  constexpr size_t kColumns = 20;
  const TerminalResult shown = RunOnTerminal({program_, "verify", temp_.Join("store")}, kColumns);
  EXPECT_EQ(shown.exit_code, 0);
  const std::regex line("\033\\[K(verify[^\r]*)");
  std::sregex_iterator found(shown.output.begin(), shown.output.end(), line);
  EXPECT_NE(found, std::sregex_iterator()) << shown.output;
  for (; found != std::sregex_iterator(); ++found) {
    EXPECT_LT(static_cast<size_t>((*found)[1].length()), kColumns) << shown.output;
  }
}

TEST_F(TerminalProgressTest, BadRecordsHaveLinesOfTheirOwn) {
  // All values but the first become zeros.
  const std::string path = temp_.Join("store") + "/value_00";
  const uint64_t bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, kValueBytes);
  std::filesystem::resize_file(path, bytes);
  const std::vector<std::string> verify = {program_, "verify", temp_.Join("store")};
  const TerminalResult shown = RunOnTerminal(verify);
  EXPECT_EQ(shown.exit_code, 1);
  size_t bad_count = 0;
  for (size_t at = shown.output.find("bad: "); at != std::string::npos;
       at = shown.output.find("bad: ", at + 1)) {
    ++bad_count;
    const std::string before = shown.output.substr(0, at);
    EXPECT_TRUE(before.ends_with("\033[K") || before.ends_with("\n")) << before;
  }
  EXPECT_GT(bad_count, kRecordCount / 2);
  const ChildResult piped = RunWithErrors(verify);
  EXPECT_EQ(piped.exit_code, 1);
  EXPECT_TRUE(piped.output.starts_with("bad: ")) << piped.output;
  EXPECT_FALSE(HasProgress(piped.output)) << piped.output;
}

TEST_F(TerminalProgressTest, CopyShowsTheTimeLeft) {
  const TerminalResult shown =
      RunOnTerminal({program_, "copy", temp_.Join("store"), temp_.Join("one")});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(std::regex_search(shown.output, ProgressLine("copy"))) << shown.output;
  const ChildResult piped =
      RunWithErrors({program_, "copy", temp_.Join("store"), temp_.Join("two")});
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_TRUE(piped.output.starts_with("600 records copied")) << piped.output;
  EXPECT_FALSE(HasProgress(piped.output)) << piped.output;
}

TEST_F(TerminalProgressTest, BenchShowsTheTimeLeft) {
  const std::vector<std::string> bench = {ProgramPath("bench"), "--db=" + temp_.Join("bench"),
                                          "--num=1000", "--benchmarks=fillseq,readrandom",
                                          "--duration=1"};
  const TerminalResult shown = RunOnTerminal(bench);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(std::regex_search(shown.output, ProgressLine("readrandom", R"([\d.]+ MB/s  )")))
      << shown.output;
  const ChildResult piped = RunWithErrors(bench);
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_NE(piped.output.find("readrandom   :"), std::string::npos) << piped.output;
  EXPECT_FALSE(HasProgress(piped.output)) << piped.output;
}

}  // namespace
}  // namespace engine_race::harness
