#include "harness/race/phase.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine_race/base/sys.h"

namespace engine_race::harness {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    in = UniqueFd(ends[0]);
    out = UniqueFd(ends[1]);
  }
  UniqueFd in;
  UniqueFd out;
};

TEST(GateTest, WithoutOtherInstancesItIsOpen) { EXPECT_TRUE(PassGate({}, "start write")); }

TEST(GateTest, SaysItsLineAndTakesOneAnswer) {
  const Pipe said;
  const Pipe answers;
  ASSERT_EQ(::write(answers.out.get(), "go\ngo\n", 6), 6);
  const GateFds fds = {.in = answers.in.get(), .out = said.out.get()};
  EXPECT_TRUE(PassGate(fds, "start write"));
  EXPECT_TRUE(PassGate(fds, "done write 7"));
  char text[64] = {};
  EXPECT_EQ(::read(said.in.get(), text, sizeof(text)), 25);
  EXPECT_STREQ(text, "start write\ndone write 7\n");
}

TEST(GateTest, ALauncherThatHasGoneIsNoSignal) {
  const Pipe said;
  Pipe answers;
  answers.out.Reset();
  EXPECT_FALSE(PassGate({.in = answers.in.get(), .out = said.out.get()}, "start write"));
  Pipe unread;
  unread.in.Reset();
  EXPECT_FALSE(PassGate({.in = answers.in.get(), .out = unread.out.get()}, "start write"));
}

}  // namespace
}  // namespace engine_race::harness
