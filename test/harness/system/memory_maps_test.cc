#include "harness/system/memory_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine_race/base/text_file.h"
#include "test/e2e/engine_fixture.h"
#include "test/forbidden_calls.h"

namespace engine_race::harness {
namespace {

std::vector<NumaMapping> NumaOf(const std::string& text) {
  std::vector<NumaMapping> mappings;
  const Status parsed = ParseNumaMaps(text, &mappings);
  EXPECT_TRUE(parsed.ok()) << parsed.ToString();
  return mappings;
}

std::vector<Mapping> MapsOf(const std::string& text) {
  std::vector<Mapping> mappings;
  const Status parsed = ParseMaps(text, &mappings);
  EXPECT_TRUE(parsed.ok()) << parsed.ToString();
  return mappings;
}

// The text of a program that was bound to node 1, its pages on node 2 where they were first read.
TEST(NumaMapsTest, ReadsPagesByNode) {
  const auto mappings = NumaOf(
      "00401000 bind:1 file=/init dirty=122 mapmax=2 active=56 N2=122 kernelpagesize_kB=4\n"
      "004a3000 bind:1 file=/init anon=2 dirty=4 mapmax=2 active=0 N1=2 N2=2 kernelpagesize_kB=4\n"
      "3ebd3000 bind:1 heap anon=3 dirty=3 active=0 N1=3 kernelpagesize_kB=4\n"
      "7ffc13e5f000 bind:1 stack anon=4 dirty=4 active=1 N1=4 kernelpagesize_kB=4\n"
      "7ffc13eda000 bind:1\n");
  ASSERT_EQ(mappings.size(), 5u);
  EXPECT_EQ(mappings[0].start, 0x401000u);
  EXPECT_EQ(mappings[0].file, "/init");
  EXPECT_EQ(mappings[0].bytes, (NodeBytes{{2, 122 * 4096}}));
  EXPECT_EQ(mappings[1].anonymous_pages, 2u);
  EXPECT_EQ(mappings[1].pages, 4u);
  EXPECT_EQ(mappings[1].bytes, (NodeBytes{{1, 8192}, {2, 8192}}));
  EXPECT_TRUE(mappings[2].is_heap);
  EXPECT_FALSE(mappings[2].is_stack);
  EXPECT_TRUE(mappings[3].is_stack);
  EXPECT_EQ(mappings[4].pages, 0u);
  EXPECT_TRUE(mappings[4].bytes.empty());
}

// hugetlbfs counts its own pages; transparent huge pages are counted as pages of 4 KiB.
TEST(NumaMapsTest, CountsHugePagesByTheirSize) {
  const auto mappings = NumaOf(
      "7f0000000000 default file=/anon_hugepage\\040(deleted) huge anon=3 dirty=3 N0=2 N10=1 "
      "kernelpagesize_kB=2048\n"
      "7f1000000000 interleave:0-3 anon=512 dirty=512 N3=512 kernelpagesize_kB=4\n");
  ASSERT_EQ(mappings.size(), 2u);
  EXPECT_EQ(mappings[0].bytes, (NodeBytes{{0, 4u << 20}, {10, 2u << 20}}));
  EXPECT_EQ(mappings[0].file, "/anon_hugepage (deleted)");
  EXPECT_EQ(mappings[1].bytes, (NodeBytes{{3, 2u << 20}}));
}

TEST(NumaMapsTest, ReadsPathsThatTheKernelEscaped) {
  const auto mappings = NumaOf(
      "7f00 default file=/srv/my\\040store/a\\075b\\134c mapped=1 N0=1 kernelpagesize_kB=4\n"
      "7f01 default file=/dev/zero\\040(deleted) N0=1 kernelpagesize_kB=4\n"
      "7f02 default file=/odd\\9name N0=1 kernelpagesize_kB=4\n");
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0].file, "/srv/my store/a=b\\c");
  EXPECT_EQ(mappings[1].file, "/dev/zero (deleted)");
  EXPECT_EQ(mappings[2].file, "/odd\\9name");
}

TEST(NumaMapsTest, KnowsPoliciesOfOtherKernels) {
  const auto mappings = NumaOf(
      "7f00 prefer=relative:2 anon=1 N2=1\n"
      "7f01 prefer (many):0-1 anon=1 N0=1 kernelpagesize_kB=4\n"
      "7f02 local anon=1 swapcache=1 future=word N0=1 kernelpagesize_kB=4\n");
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0].bytes, (NodeBytes{{2, 4096}}));
  EXPECT_EQ(mappings[1].bytes, (NodeBytes{{0, 4096}}));
  EXPECT_EQ(mappings[2].bytes, (NodeBytes{{0, 4096}}));
  EXPECT_EQ(mappings[0].policy, "prefer=relative:2");
  EXPECT_EQ(mappings[1].policy, "prefer (many):0-1");
  EXPECT_EQ(mappings[2].policy, "local");
}

TEST(NumaMapsTest, NamesTheLineThatItCannotRead) {
  for (const std::string bad : {"", "zzz default", "7f00", "7f00 default N0=x", "7f00 default N1",
                                "7f00 default anon=", "7f00 default N0=1 kernelpagesize_kB=0"}) {
    std::vector<NumaMapping> mappings;
    const Status parsed = ParseNumaMaps("7e00 default\n" + bad + "\n", &mappings);
    EXPECT_EQ(parsed.message(), "line 2 cannot be parsed") << bad;
  }
  EXPECT_EQ(NumaOf("").size(), 0u);
}

constexpr char kMaps[] =
    "00400000-00401000 r--p 00000000 00:02 10                                 /init\n"
    "00401000-0047b000 r-xp 00001000 00:02 10                                 /init\n"
    "004aa000-004b0000 rw-p 00000000 00:00 0 \n"
    "7f00-7f01 rw-s 00000000 08:01 77     /srv/my  store/staging values (deleted)\n"
    "7f01-7f02 r-xp 00000000 08:01 78                         /usr/lib/libnuma.so.1.0.0\n"
    "7ffc13e5f000-7ffc13e80000 rw-p 00000000 00:00 0                          [stack]\n";

TEST(MapsTest, ReadsWhatAMappingMayDo) {
  const auto mappings = MapsOf(kMaps);
  ASSERT_EQ(mappings.size(), 6u);
  EXPECT_FALSE(mappings[0].executable);
  EXPECT_TRUE(mappings[1].executable);
  EXPECT_FALSE(mappings[1].writable);
  EXPECT_EQ(mappings[1].inode, 10u);
  EXPECT_EQ(mappings[1].end, 0x47b000u);
  EXPECT_FALSE(mappings[2].HasFile());
  EXPECT_EQ(mappings[2].path, "");
  EXPECT_TRUE(mappings[3].shared);
  EXPECT_EQ(mappings[3].path, "/srv/my  store/staging values (deleted)");
  EXPECT_TRUE(mappings[3].HasFile());
  EXPECT_EQ(mappings[5].path, "[stack]");
}

TEST(MapsTest, FindsTheMappingOfAnAddress) {
  auto mappings = MapsOf(kMaps);
  std::sort(mappings.begin(), mappings.end(),
            [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
  EXPECT_EQ(FindMapping(mappings, 0x401000)->start, 0x401000u);
  EXPECT_EQ(FindMapping(mappings, 0x47afff)->start, 0x401000u);
  EXPECT_EQ(FindMapping(mappings, 0x47b000), nullptr);
  EXPECT_EQ(FindMapping(mappings, 0x10), nullptr);
  EXPECT_EQ(FindMapping(mappings, ~uint64_t{0}), nullptr);
  EXPECT_EQ(FindMapping({}, 0x10), nullptr);
}

TEST(MapsTest, TakesHugePagesFromSmaps) {
  const auto mappings = MapsOf(
      "00600000-00a00000 r-xp 00000000 00:00 0 \n"
      "Size:               4096 kB\n"
      "Rss:                4096 kB\n"
      "AnonHugePages:      2048 kB\n"
      "FilePmdMapped:      2048 kB\n"
      "THPeligible:           1\n"
      "VmFlags: rd ex mr mw me ac hg \n"
      "00a00000-00b00000 r--p 00000000 08:01 9    /bin/race\n"
      "Size:               1024 kB\n"
      "AnonHugePages:         0 kB\n");
  ASSERT_EQ(mappings.size(), 2u);
  EXPECT_EQ(mappings[0].huge_bytes, 4u << 20);
  EXPECT_EQ(mappings[1].huge_bytes, 0u);
  EXPECT_EQ(mappings[1].path, "/bin/race");
}

TEST(MapsTest, NamesTheLineThatItCannotRead) {
  for (const std::string bad :
       {"", "00401000 r-xp 0 0:0 0", "2-1 r-xp 0 0:0 0", "1-2 r-x 0 0:0 0", "1-2 r-xp 0 0:0 x"}) {
    std::vector<Mapping> mappings;
    const Status parsed = ParseMaps("0-1 r-xp 0 0:0 0\n" + bad + "\n", &mappings);
    EXPECT_EQ(parsed.message(), "line 2 cannot be parsed") << bad;
  }
  std::vector<Mapping> mappings;
  EXPECT_EQ(ParseMaps("Size: 4 kB\n", &mappings).message(), "line 1 cannot be parsed");
}

TEST(StatusFieldTest, FindsTheLineOfAName) {
  const std::string status = "Name:\trace\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,6 \nx\n";
  EXPECT_EQ(StatusField(status, "Name"), "race");
  EXPECT_EQ(StatusField(status, "Cpus_allowed_list"), "0-3,6");
  EXPECT_EQ(StatusField(status, "Mems_allowed_list"), std::nullopt);
  EXPECT_EQ(StatusField("", "Name"), std::nullopt);
}

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
