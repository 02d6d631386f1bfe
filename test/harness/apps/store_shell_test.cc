// The shell of bin/store, in a pipe and on a terminal.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/harness/apps/store_fixture.h"
#include "test/harness/terminal.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

class StoreShellTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    if (IsSkipped()) return;
    const std::unique_ptr<Store> store = Open();
    for (uint64_t key = 1; key <= 3; ++key) {
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    }
  }
  std::string Shell(const std::string& lines, int wanted,
                    const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> args = {"shell", store_dir()};
    args.insert(args.end(), flags.begin(), flags.end());
    return OutputOf(args, wanted, lines);
  }
};

TEST_F(StoreShellTest, RunsALineAfterTheOther) {
  EXPECT_EQ(Shell("put 5 --pad --value \"two words\"\n"
                  "\n"
                  "get 5\n"
                  "delete 1 2\n"
                  "scan --keys-only --key_format decimal\n"
                  "count --from 5\n"
                  "get 3 --out " +
                      temp_.Join("out") +
                      "\n"
                      "get 5 --json --out " +
                      temp_.Join("words"),
                  0),
            "0x0000000000000005  two words\n"
            "3\n5\n"
            "1\n");
  EXPECT_EQ(ReadFile("out"), ValueOf(3, 1));
  EXPECT_TRUE(ReadFile("words").starts_with("two words" + std::string(100, '\0')));
  std::string value;
  ASSERT_TRUE(Open()->Read(KeyOf(5), &value).ok());
  EXPECT_EQ(value, "two words" + std::string(4087, '\0'));
}

TEST_F(StoreShellTest, AFailureDoesNotEndIt) {
  EXPECT_EQ(Shell("get 9\ncount\nquit\ndelete 1\n", 1),
            "store get: " + store_dir() + ": key 0x0000000000000009 is not there\n3\n");
  const std::string wrong = Shell("conut\nput 9\nget\ncount\n", 2);
  EXPECT_NE(wrong.find("unknown command conut; did you mean count?"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("a FILE or --value is needed"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("KEY is required"), std::string::npos) << wrong;
  EXPECT_TRUE(wrong.ends_with("\n3\n")) << wrong;
}

TEST_F(StoreShellTest, QuotesAreOfAnyPartOfAWord) {
  EXPECT_EQ(Shell("put 5 --pad --value=\"two \\\"words\\\" \\\\\"s\nget 5\n"
                  "put 6 --pad --value \"\"\nget 6\n",
                  0),
            "0x0000000000000005  two \"words\" \\x5cs\n"
            "0x0000000000000006  \n");
  const std::string wrong = Shell(std::string("delete 1 \"2\ndelete 1\0 2\ncount\n", 30), 2);
  EXPECT_NE(wrong.find("a quote is not closed"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("zero byte"), std::string::npos) << wrong;
  EXPECT_TRUE(wrong.ends_with("\n5\n")) << wrong;
}

TEST_F(StoreShellTest, HelpNamesTheCommandsAndStatsCountThem) {
  const std::string help = Shell("help\n", 0);
  for (const char* const command : {"get", "put", "delete", "scan", "count", "stats", "quit"}) {
    EXPECT_NE(help.find("\n  " + std::string(command) + " "), std::string::npos) << help;
  }
  const std::string stats = Shell("get 1\nget 2\nstats\n", 0);
  EXPECT_NE(stats.find("read_count                  2\n"), std::string::npos) << stats;
  EXPECT_NE(stats.find("record_count                3\n"), std::string::npos) << stats;
}

TEST_F(StoreShellTest, AStoreThatIsOnlyReadTakesNoWrites) {
  Options options;
  options.read_only = true;
  const std::unique_ptr<Store> reader = Open(options);
  EXPECT_NE(Shell("count\n", 2).find("open elsewhere"), std::string::npos);
  const std::string refused = Shell("put 9 --value x --pad\ndelete 1\ncount\n", 2, {"--read-only"});
  EXPECT_NE(refused.find("put: " + store_dir() + ": kInvalidArgument"), std::string::npos);
  EXPECT_NE(refused.find("delete: " + store_dir() + ": kInvalidArgument"), std::string::npos);
  EXPECT_TRUE(refused.ends_with("\n3\n")) << refused;
}

TEST_F(StoreShellTest, MakesAStoreOnlyIfAsked) {
  ExpectOutput({"shell", temp_.Join("new")}, 2, "there is no store", "count\n");
  ExpectOutput({"shell", temp_.Join("new"), "--create"}, 0, "0\n", "count\n");
}

TEST_F(StoreShellTest, OnATerminalItPromptsAndCompletesCommands) {
#if !__has_include(<editline/readline.h>)
  GTEST_SKIP() << "built without libedit";
#endif
  const TerminalResult shown =
      RunOnTerminal({"/usr/bin/env", "TERM=xterm", program_, "shell", store_dir()}, 80,
                    {{"store> ", "cou\t\n"}, {"\n3\r\n", "get 9\n"}, {"not there", "qu\t\n\x04"}});
  // A person has seen what failed.
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_NE(shown.output.find("\n3\r\n"), std::string::npos) << shown.output;
  EXPECT_EQ(shown.output.find("unknown command"), std::string::npos) << shown.output;
}

}  // namespace
}  // namespace engine_race::harness
