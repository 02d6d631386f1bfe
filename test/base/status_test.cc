#include "engine_race/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "test/index/refused_memory.h"

namespace engine_race {
namespace {

using test::RefuseMemory;

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

TEST(StatusTest, CopiesAndMovesKeepCodeAndText) {
  const Status full = Status::Full("no room");
  Status copy = full;
  EXPECT_EQ(copy.code(), Code::kFull);
  EXPECT_EQ(copy.message(), "no room");
  copy = Status::NotFound();
  EXPECT_EQ(copy.code(), Code::kNotFound);
  EXPECT_EQ(copy.message(), "");
  copy = full;
  const Status moved = std::move(copy);
  EXPECT_EQ(moved.ToString(), full.ToString());
  EXPECT_EQ(full.message(), "no room");
}

TEST(StatusTest, OtherWordsKeepErrnoAndPath) {
  const Status failed = Status::FromErrno("pwrite", ENOSPC, "/data/value_03");
  EXPECT_EQ(failed.error(), ENOSPC);
  EXPECT_EQ(failed.path(), "/data/value_03");
  const Status copy = failed;
  const Status named = copy.Prefixed("value_03: ");
  EXPECT_EQ(named.code(), Code::kFull);
  EXPECT_EQ(named.message(), "value_03: " + failed.message());
  const Status after = named.Reworded(Code::kIOError, "after " + named.message());
  EXPECT_EQ(after.code(), Code::kIOError);
  EXPECT_EQ(after.error(), ENOSPC);
  EXPECT_EQ(after.path(), "/data/value_03");
}

TEST(StatusTest, TheFirstErrnoAndPathStay) {
  const Status told = Status::Corruption("no manifest").At("/data");
  EXPECT_EQ(told.error(), 0);
  EXPECT_EQ(told.path(), "/data");
  EXPECT_EQ(told.message(), "no manifest");
  const Status failed = Status::FromErrno("open", EACCES, "/data/key_00").At("/data", EIO);
  EXPECT_EQ(failed.error(), EACCES);
  EXPECT_EQ(failed.path(), "/data/key_00");
  EXPECT_EQ(Status::NotFound().At("/data").ToString(), "kNotFound");
}

TEST(StatusTest, SuccessHasNoErrnoAndNoPath) {
  EXPECT_TRUE(Status::Ok().Prefixed("value_03: ").ok());
  EXPECT_TRUE(Status::Ok().At("/data", EIO).ok());
  EXPECT_EQ(Status::Ok().At("/data", EIO).error(), 0);
  EXPECT_EQ(Status::Ok().path(), "");
}

Status FailAt(bool fail, int* reached) {
  ENGINE_RACE_RETURN_IF_ERROR(fail ? Status::Full("f") : Status::Ok());
  ++*reached;
  return Status::Ok();
}

TEST(StatusTest, RefusedMemoryIsToldWithoutMemory) {
  bool refused = true;
  for (uint64_t n = 0; refused; ++n) {
    const RefuseMemory refuse(n);
    const Status status = Status::OutOfMemory("a text that is too long for the string object");
    refused = refuse.refused();
    EXPECT_EQ(status.code(), Code::kOutOfMemory);
    EXPECT_EQ(status.message().empty(), refused);
  }
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
