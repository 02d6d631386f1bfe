#include "harness/system/own_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine_race/base/text_file.h"
#include "harness/system/memory_maps.h"
#include "test/e2e/engine_fixture.h"
#include "test/forbidden_calls.h"

namespace engine_race::harness {
namespace {

// Executable mappings of this process: of files, and anonymous ones.
struct Texts {
  size_t of_files = 0;
  size_t anonymous = 0;
};

Texts ListTexts() {
  Texts texts;
  std::vector<Mapping> mappings;
  if (!ParseMaps(ReadTextFile("/proc/self/maps"), &mappings).ok()) return texts;
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable || mapping.path.starts_with("[")) continue;
    ++(mapping.HasFile() ? texts.of_files : texts.anonymous);
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

TEST(OwnTextTest, AllTextMovesAndGoesOnWorking) { EXPECT_EQ(test::InChild(MoveAndLook), 0); }

TEST(OwnTextTest, ASystemThatForbidsItIsSaidAndNothingMoves) {
  constexpr int kNoFilter = 77;
  const int exit_code = test::InChild([] {
    const Texts before = ListTexts();
    if (!test::ForbidCalls({SYS_mprotect})) return kNoFilter;
    if (MoveTextToOwnMemory().code() != Code::kNotSupported) return 1;
    return ListTexts().of_files == before.of_files ? 0 : 2;
  });
  if (exit_code == kNoFilter) GTEST_SKIP() << "no filter of system calls can be had here";
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace engine_race::harness
