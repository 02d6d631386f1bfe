#include "engine_race/io/file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine_race/base/memory.h"
#include "test/test_util.h"

namespace engine_race::io {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok()); }
  test::TempDir dir_;
  UniqueFd dir_fd_;
};

TEST_F(FileTest, DirectAndBufferedFilesHoldWhatWasWritten) {
  Region page;
  ASSERT_TRUE(Region::Allocate(4096, false, &page).ok());
  for (const Caching caching : {Caching::kBuffered, Caching::kDirect}) {
    File file;
    ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, caching, &file).ok());
    std::memset(page.data(), 7, 4096);
    ASSERT_TRUE(file.Write(page.data(), 4096, 8192).ok());
    std::memset(page.data(), 0, 4096);
    ASSERT_TRUE(file.Read(page.data(), 4096, 8192).ok());
    EXPECT_EQ(page.data()[4095], 7);
    uint64_t size_bytes = 0;
    ASSERT_TRUE(file.Size(&size_bytes).ok());
    EXPECT_EQ(size_bytes, 12288u);
  }
}

TEST_F(FileTest, ErrorsNameTheFile) {
  File file;
  const Status missing =
      File::Open(dir_fd_.get(), "absent", Access::kReadWrite, Caching::kDirect, &file);
  EXPECT_EQ(missing.code(), Code::kIOError);
  EXPECT_NE(missing.message().find("absent"), std::string::npos);
  ASSERT_TRUE(
      File::Open(dir_fd_.get(), "value_07", Access::kCreate, Caching::kBuffered, &file).ok());
  char c = 0;
  const Status early = file.Read(&c, 1, 0);
  EXPECT_EQ(early.code(), Code::kIOError);
  EXPECT_NE(early.message().find("value_07"), std::string::npos);
}

TEST_F(FileTest, ReadOnlyFilesRefuseWrites) {
  File file;
  ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, Caching::kBuffered, &file).ok());
  ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kRead, Caching::kBuffered, &file).ok());
  EXPECT_EQ(file.Write("x", 1, 0).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::io
