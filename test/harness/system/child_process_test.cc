#include "harness/system/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "test/e2e/engine_fixture.h"

namespace harness {
namespace {

// The exit code of a process that catches interrupts and then gets one of them; 0 if it has seen
// it.
int SeesIn(int signal, void (*before)(int)) {
  return engine_race::test::InChild([signal, before] {
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

}  // namespace
}  // namespace harness
