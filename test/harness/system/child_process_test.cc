#include "harness/system/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace engine_race::harness
