#include "harness/system/own_text.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace harness {
namespace {

// Executable mappings of this process: of files, and anonymous ones.
struct Texts {
  size_t of_files = 0;
  size_t anonymous = 0;
};

Texts ListTexts() {
  Texts texts;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string addresses, may, offset, device, path;
    uint64_t inode = 0;
    fields >> addresses >> may >> offset >> device >> inode >> path;
    if (may.size() < 3 || may[2] != 'x' || path.starts_with("[")) continue;
    ++(inode == 0 ? texts.anonymous : texts.of_files);
  }
  return texts;
}

// What a child finds, as its exit code: 0 when all text has moved and still works.
int MoveAndLook() {
  const Texts before = ListTexts();
  if (!MoveTextToOwnMemory().ok()) return 1;
  const Texts after = ListTexts();
  if (before.of_files == 0) return 2;
  if (after.of_files != 0) return 3;
  if (after.anonymous < before.anonymous + 1) return 4;
  // Calls into the program's text and into those of libraries.
  volatile double two = 2;
  if (std::to_string(std::sin(two)) != "0.909297") return 5;
  try {
    throw std::string("unwound");
  } catch (const std::string& what) {
    if (what != "unwound") return 6;
  }
  // Text that has moved already is no file's any more, so there is nothing left to do.
  return MoveTextToOwnMemory().ok() && ListTexts().anonymous == after.anonymous ? 0 : 7;
}

TEST(OwnTextTest, AllTextMovesAndGoesOnWorking) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(MoveAndLook());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace harness
