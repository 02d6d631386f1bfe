#include "include/polar_string.h"

#include <gtest/gtest.h>

#include <string>

namespace polar_race {
namespace {

TEST(PolarStringTest, BuiltFromEverySource) {
  const std::string s("ab\0cd", 5);
  EXPECT_EQ(PolarString(s).size(), 5u);
  EXPECT_EQ(PolarString("abc").size(), 3u);
  EXPECT_EQ(PolarString("abcdef", 2).ToString(), "ab");
  EXPECT_TRUE(PolarString().empty());
  EXPECT_TRUE(PolarString(static_cast<const char*>(nullptr)).empty());
  EXPECT_EQ(PolarString(nullptr, 0).ToString(), "");
  EXPECT_EQ(PolarString(s)[3], 'c');
}

TEST(PolarStringTest, ComparesBytesAsUnsigned) {
  EXPECT_LT(PolarString("a").compare("b"), 0);
  EXPECT_LT(PolarString("a").compare("ab"), 0);
  EXPECT_GT(PolarString("\xff").compare("\x01"), 0);
  EXPECT_EQ(PolarString("same").compare("same"), 0);
  EXPECT_TRUE(PolarString("x") == PolarString(std::string("x")));
  EXPECT_TRUE(PolarString("x") != PolarString("y"));
  EXPECT_TRUE(PolarString("x") != PolarString("xx"));
  EXPECT_TRUE(PolarString(nullptr, 0) == PolarString(""));
}

TEST(PolarStringTest, StartsAndEnds) {
  const PolarString s("prefix-suffix");
  EXPECT_TRUE(s.starts_with("prefix"));
  EXPECT_FALSE(s.starts_with("suffix"));
  EXPECT_TRUE(s.ends_with("suffix"));
  EXPECT_FALSE(s.ends_with("prefix"));
  EXPECT_TRUE(s.starts_with("") && s.ends_with(""));
  EXPECT_FALSE(PolarString("fix").ends_with("suffix"));
}

TEST(PolarStringTest, ClearEmptiesTheView) {
  PolarString s("abc");
  s.clear();
  EXPECT_TRUE(s.empty());
  EXPECT_EQ(s, PolarString(""));
}

}  // namespace
}  // namespace polar_race
