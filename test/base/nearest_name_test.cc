#include "engine_race/base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace engine_race {
namespace {

constexpr std::string_view kNames[] = {"verify", "copy", "backup", "restore", "compact", "dump"};

TEST(NearestNameTest, FindsEachKindOfTypingError) {
  EXPECT_EQ(NearestName("verfy", kNames), "verify");    // a character too few
  EXPECT_EQ(NearestName("verrify", kNames), "verify");  // one too many
  EXPECT_EQ(NearestName("verifi", kNames), "verify");   // a wrong one
  EXPECT_EQ(NearestName("cpoy", kNames), "copy");       // two exchanged
  EXPECT_EQ(NearestName("dmp", kNames), "dump");
  EXPECT_EQ(NearestName("bakcpu", kNames), "backup");  // two of six
}

TEST(NearestNameTest, TakesTheNameWithTheFewestErrors) {
  constexpr std::string_view kNear[] = {"readseq", "readreverse", "readrandom"};
  EXPECT_EQ(NearestName("readsqe", kNear), "readseq");
  EXPECT_EQ(NearestName("readrandm", kNear), "readrandom");
  // Of equally near ones the first.
  constexpr std::string_view kEqual[] = {"ycsba", "ycsbb", "ycsbc"};
  EXPECT_EQ(NearestName("ycsbx", kEqual), "ycsba");
}

TEST(NearestNameTest, FindsTheOnlyNameThatBeginsSo) {
  EXPECT_EQ(NearestName("re", kNames), "restore");
  EXPECT_EQ(NearestName("comp", kNames), "compact");
  constexpr std::string_view kTwo[] = {"sync_mode", "sync_on_close"};
  EXPECT_EQ(NearestName("sync", kTwo), "");
}

TEST(NearestNameTest, FindsNothingForAnotherWord) {
  EXPECT_EQ(NearestName("frobnicate", kNames), "");
  EXPECT_EQ(NearestName("", kNames), "");
  EXPECT_EQ(NearestName("x", kNames), "");
  EXPECT_EQ(NearestName(std::string(1000, 'v'), kNames), "");
  EXPECT_EQ(NearestName("verify", {}), "");
}

TEST(NearestNameTest, SaysTheName) {
  EXPECT_EQ(DidYouMean("verfy", kNames), "; did you mean verify?");
  EXPECT_EQ(DidYouMean("frobnicate", kNames), "");
}

}  // namespace
}  // namespace engine_race
