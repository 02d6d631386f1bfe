#include "harness/system/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "test/e2e/engine_fixture.h"

namespace engine_race::harness {
namespace {

// The exit code of a process that catches interrupts and then gets one of them; 0 if it has seen
// it.
int SeesIn(int signal, void (*before)(int)) {
  return test::InChild([signal, before] {
    ::signal(signal, before);
    CatchInterrupts();
    ::raise(signal);
    return Interrupted() ? 0 : 1;
  });
}

TEST(ChildProcessTest, InterruptsAreSeen) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) EXPECT_EQ(SeesIn(signal, SIG_DFL), 0);
}

TEST(ChildProcessTest, AnIgnoredHangupStaysIgnored) { EXPECT_EQ(SeesIn(SIGHUP, SIG_IGN), 1); }

TEST(ChildProcessTest, AChildThatTakesTooLongIsKilled) {
  const ChildResult slow = RunChild({"sh", "-c", "echo begun; exec sleep 10000"}, 2);
  EXPECT_TRUE(slow.started);
  EXPECT_TRUE(slow.timed_out);
  EXPECT_EQ(slow.exit_code, 128 + SIGKILL);
  const ChildResult quick = RunChild({"echo", "done"}, 10000);
  EXPECT_FALSE(quick.timed_out);
  EXPECT_EQ(quick.exit_code, 0);
  EXPECT_EQ(quick.output, "done\n");
}

// Interrupts are blocked while a child is started, but not for the child.
TEST(ChildProcessTest, SignalsReachTheChild) {
  const ChildResult child = RunChild({"sh", "-c", "kill -TERM $$; echo alive"});
  EXPECT_EQ(child.exit_code, 128 + SIGTERM);
  EXPECT_EQ(child.output, "");
}

TEST(ChildProcessTest, AChildOfAnInterruptedProgramIsTold) {
  const int code = test::InChild([] {
    CatchInterrupts();
    ::raise(SIGINT);
    return RunChild({"sleep", "10000"}, 60).exit_code;
  });
  EXPECT_EQ(code, 128 + SIGTERM);
}

TEST(ChildProcessTest, AChildDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      if (!DieWithParent(self) || ::write(ends[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  // The pipe ends with the last process that has it open.
  constexpr int kPatienceMs = 60000;
  pollfd ended = {ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, kPatienceMs), 1) << "the child has outlived its parent";
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
}

TEST(ChildProcessTest, AParentThatIsGoneIsNoticed) {
  EXPECT_EQ(test::InChild([] { return DieWithParent(::getpid()) ? 1 : 0; }), 0);
}

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

Status Double(const nlohmann::json& order, nlohmann::json* answer) {
  if (order.contains("bad")) return Status::IOError(order.at("bad"));
  (*answer)["twice"] = order.at("number").get<int>() * 2;
  if (order.contains("note")) (*answer)["error"] = order.at("note");
  return Status::Ok();
}

const ChildWorks kWorks = {{"double", Double}};

class OwnChildTest : public ::testing::Test {
 protected:
  // Runs a child's main in this process.
  std::optional<int> Main(const std::string& work, const std::string& order,
                          const std::string& parent = "0") {
    std::vector<std::string> args = {"program", "--child", work, order, parent};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    CaptureStdout();
    const std::optional<int> code = ChildMain(static_cast<int>(argv.size()), argv.data(), kWorks);
    printed_ = GetCapturedStdout();
    return code;
  }
  std::string error() const { return ParseAnswer(printed_).value().value("error", ""); }

  std::string printed_;
};

TEST_F(OwnChildTest, OtherArgumentsAreNoChilds) {
  std::string words[] = {"program", "--children", "double", "{}", "0"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_FALSE(ChildMain(5, argv.data(), kWorks).has_value());
  words[1] = "--child";
  argv[1] = words[1].data();
  EXPECT_FALSE(ChildMain(2, argv.data(), kWorks).has_value());
}

TEST_F(OwnChildTest, AnswersItsOrder) {
  EXPECT_EQ(Main("double", R"({"number": 21})"), 0);
  EXPECT_EQ(ParseAnswer(printed_).value().at("twice"), 42);
}

TEST_F(OwnChildTest, AFailureIsAnError) {
  EXPECT_EQ(Main("double", R"({"bad": "block"})"), 1);
  EXPECT_NE(error().find("block"), std::string::npos);
  EXPECT_EQ(Main("double", R"({"number": 1, "note": "not closed"})"), 1);
  EXPECT_EQ(error(), "not closed");
}

TEST_F(OwnChildTest, AWrongOrderIsNotRun) {
  for (const char* order : {"{}", "{", "7"}) EXPECT_EQ(Main("double", order), 2) << order;
  EXPECT_EQ(Main("triple", "{}"), 2);
  EXPECT_NE(error().find("triple"), std::string::npos);
}

TEST_F(OwnChildTest, AnOrphanDoesNotBegin) {
  EXPECT_EQ(Main("double", R"({"number": 1})", std::to_string(::getpid())), 2);
  EXPECT_EQ(printed_, "");
}

TEST(ChildAnswerTest, IsTheLastLine) {
  EXPECT_EQ(ParseAnswer("a library's line\n{\"a\": 1}\n").value().at("a"), 1);
  for (const char* text : {"", "\n", "{", "[]", "7", "{}\nlater"}) {
    EXPECT_FALSE(ParseAnswer(text)) << text;
  }
}

TEST(ChildAnswerTest, MayNameAPathOfAnyBytes) {
  CaptureStdout();
  PrintAnswer({{"error", "open /\xff"}});
  EXPECT_TRUE(ParseAnswer(GetCapturedStdout()));
}

TEST(ChildCommandTest, IsThisProgramAgain) {
  const std::vector<std::string> command = ChildCommand("double", {{"number", 3}}, 7);
  EXPECT_EQ(command[2], "double");
  EXPECT_EQ(command[3], R"({"number":3})");
  EXPECT_EQ(command[4], "7");
}

}  // namespace
}  // namespace engine_race::harness
