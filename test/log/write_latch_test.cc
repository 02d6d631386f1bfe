#include "engine_race/log/write_latch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace engine_race {
namespace {

TEST(WriteLatchTest, WhatCanBeTriedAgainDoesNotLatch) {
  const LogFn no_log;
  WriteLatch latch(no_log);
  latch.LatchIfLasting(Status::Full("disk"));
  latch.LatchIfLasting(Status::OutOfMemory("buffer"));
  EXPECT_FALSE(latch.latched());
  latch.LatchIfLasting(Status::IOError("device"));
  EXPECT_TRUE(latch.latched());
}

TEST(WriteLatchTest, LaterWritesAnswerTheFirstFailureAndTheLogHearsOfEach) {
  std::vector<std::string> lines;
  const LogFn log = [&lines](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::kError);
    lines.emplace_back(line);
  };
  WriteLatch latch(log);
  latch.Latch(Status::IOError("the first"));
  latch.Latch(Status::IOError("the second"));
  EXPECT_EQ(latch.status().code(), Code::kIOError);
  EXPECT_NE(latch.status().message().find("the first"), std::string::npos);
  EXPECT_EQ(latch.status().message().find("the second"), std::string::npos);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("the second"), std::string::npos);
}

// A failure of another kind is an IOError for the writes after it: nothing was wrong with them.
TEST(WriteLatchTest, AFullDiskThatLatchesIsAnIOErrorAfterwards) {
  const LogFn no_log;
  WriteLatch latch(no_log);
  latch.Latch(Status::Full("disk"));
  EXPECT_TRUE(latch.latched());
  EXPECT_EQ(latch.status().code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race
