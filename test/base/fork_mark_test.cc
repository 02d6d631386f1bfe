#include "engine_race/base/fork_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace engine_race {
namespace {

// Whether it holds in a forked child.
bool InForked(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkMarkTest, TellsChildren) {
  ForkMark mark;
  ASSERT_TRUE(ForkMark::Make(&mark).ok());
  EXPECT_FALSE(mark.InChild());
  EXPECT_TRUE(InForked([&] { return mark.InChild(); }));
  EXPECT_TRUE(InForked([&] { return InForked([&] { return mark.InChild(); }); }));
  EXPECT_FALSE(mark.InChild());
  EXPECT_TRUE(mark.CheckProcess().ok());
  EXPECT_FALSE(mark.flag());
  mark.flag() = true;
  EXPECT_TRUE(InForked([&] { return !mark.flag(); }));
  EXPECT_TRUE(InForked([&] { return mark.CheckProcess().code() == Code::kInvalidArgument; }));
  EXPECT_TRUE(mark.flag());
  // One that a child makes is its own.
  EXPECT_TRUE(InForked([] {
    ForkMark own;
    return ForkMark::Make(&own).ok() && !own.InChild();
  }));
}

}  // namespace
}  // namespace engine_race
