#include "engine_race/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace engine_race {
namespace {

TEST(StatusTest, ErrnoBecomesTheCodeThatCallersActOn) {
  EXPECT_EQ(Status::FromErrno("w", ENOSPC).code(), Code::kFull);
  EXPECT_EQ(Status::FromErrno("w", EDQUOT).code(), Code::kFull);
  EXPECT_EQ(Status::FromErrno("w", EFBIG).code(), Code::kFull);
  EXPECT_EQ(Status::FromErrno("w", ENOMEM).code(), Code::kOutOfMemory);
  EXPECT_EQ(Status::FromErrno("w", EIO).code(), Code::kIOError);
  EXPECT_EQ(Status::FromErrno("w", EMFILE).code(), Code::kIOError);
}

TEST(StatusTest, TextNamesCodeAndPlace) {
  const std::string text = Status::FromErrno("open /x", EACCES).ToString();
  EXPECT_NE(text.find("kIOError"), std::string::npos) << text;
  EXPECT_NE(text.find("open /x"), std::string::npos) << text;
  EXPECT_EQ(Status::Ok().ToString(), "kSucc");
}

Status FailAt(bool fail, int* reached) {
  ENGINE_RACE_RETURN_IF_ERROR(fail ? Status::Full("f") : Status::Ok());
  ++*reached;
  return Status::Ok();
}

TEST(StatusTest, ReturnIfErrorReturnsOnlyErrors) {
  int reached = 0;
  EXPECT_EQ(FailAt(true, &reached).code(), Code::kFull);
  EXPECT_EQ(reached, 0);
  EXPECT_TRUE(FailAt(false, &reached).ok());
  EXPECT_EQ(reached, 1);
}

}  // namespace
}  // namespace engine_race
