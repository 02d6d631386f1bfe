#include "engine_race/base/sys.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "test/test_util.h"

namespace engine_race {
namespace {

class SysTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDWR | O_CREAT, 0644, &fd_).ok());
  }
  test::TempDir dir_;
  UniqueFd fd_;
};

TEST_F(SysTest, WhatIsWrittenIsRead) {
  ASSERT_TRUE(sys::PwriteFull(fd_.get(), "hello", 5, 10).ok());
  char buffer[5];
  ASSERT_TRUE(sys::PreadFull(fd_.get(), buffer, 5, 10).ok());
  EXPECT_EQ(std::string(buffer, 5), "hello");
}

TEST_F(SysTest, EarlyEndIsAnErrorOnlyForPreadFull) {
  ASSERT_TRUE(sys::PwriteFull(fd_.get(), "hello", 5, 0).ok());
  char buffer[9];
  size_t read_bytes = 0;
  ASSERT_TRUE(sys::Pread(fd_.get(), buffer, 9, 0, &read_bytes).ok());
  EXPECT_EQ(read_bytes, 5u);
  EXPECT_EQ(sys::PreadFull(fd_.get(), buffer, 9, 0).code(), Code::kIOError);
}

TEST_F(SysTest, ErrorsNameTheCall) {
  char c = 0;
  const Status status = sys::PreadFull(-1, &c, 1, 0);
  EXPECT_EQ(status.code(), Code::kIOError);
  EXPECT_NE(status.message().find("pread"), std::string::npos);
  UniqueFd none;
  EXPECT_NE(
      sys::OpenAt(AT_FDCWD, dir_.Join("no/such"), O_RDONLY, 0, &none).message().find("no/such"),
      std::string::npos);
}

TEST_F(SysTest, ErrorsSayWhichFileAndTheErrno) {
  UniqueFd other;
  const Status missing = sys::OpenAt(AT_FDCWD, dir_.Join("no/such"), O_RDONLY, 0, &other);
  EXPECT_EQ(missing.error(), ENOENT);
  EXPECT_EQ(missing.path(), dir_.Join("no/such"));
  UniqueFd directory;
  ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &directory).ok());
  const Status below = sys::OpenAt(directory.get(), "absent", O_RDONLY, 0, &other);
  EXPECT_EQ(below.error(), ENOENT);
  EXPECT_EQ(below.path(), std::filesystem::canonical(dir_.path()) / "absent");
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDONLY, 0, &other).ok());
  const Status refused = sys::PwriteFull(other.get(), "x", 1, 0);
  EXPECT_EQ(refused.error(), EBADF);
  EXPECT_EQ(refused.path(), std::filesystem::canonical(dir_.Join("f")));
}

// A lock of F_SETLK would belong to the process; this one belongs to the open file.
TEST_F(SysTest, RenameToNewReplacesNothing) {
  UniqueFd fd;
  for (const char* const name : {"from", "there"}) {
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join(name), O_WRONLY | O_CREAT, 0600, &fd).ok());
  }
  const Status refused = sys::RenameToNew(AT_FDCWD, dir_.Join("from"), dir_.Join("there"));
  EXPECT_EQ(refused.error(), EEXIST) << refused.ToString();
  bool exists = false;
  ASSERT_TRUE(sys::RenameToNew(AT_FDCWD, dir_.Join("from"), dir_.Join("to")).ok());
  EXPECT_TRUE(sys::Exists(AT_FDCWD, dir_.Join("to"), &exists).ok() && exists);
}

TEST_F(SysTest, AFileLockIsOfOneOpenOfTheFile) {
  UniqueFd other;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDWR, 0, &other).ok());
  ASSERT_TRUE(sys::LockFile(fd_.get(), sys::LockKind::kExclusive).ok());
  EXPECT_EQ(sys::LockFile(other.get(), sys::LockKind::kExclusive).code(), Code::kIOError);
  EXPECT_EQ(sys::LockFile(other.get(), sys::LockKind::kShared).code(), Code::kIOError);
  // Another one that is closed does not end it.
  other.Reset();
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDONLY, 0, &other).ok());
  EXPECT_EQ(sys::LockFile(other.get(), sys::LockKind::kShared).code(), Code::kIOError);
  fd_.Reset();
  EXPECT_TRUE(sys::LockFile(other.get(), sys::LockKind::kShared).ok());
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDWR, 0, &fd_).ok());
  EXPECT_TRUE(sys::LockFile(fd_.get(), sys::LockKind::kShared).ok());
  EXPECT_EQ(sys::LockFile(fd_.get(), sys::LockKind::kExclusive).code(), Code::kIOError);
}

TEST_F(SysTest, OpenDirectoryRefusesFilesAndSaysWhatIsMissing) {
  UniqueFd made;
  EXPECT_EQ(sys::OpenDirectory(dir_.Join("f"), true, &made).code(), Code::kIOError);
  EXPECT_EQ(sys::OpenDirectory(dir_.Join("f/a"), true, &made).code(), Code::kIOError);
  EXPECT_EQ(sys::OpenDirectory(dir_.Join("absent"), false, &made).code(), Code::kNotFound);
  EXPECT_EQ(sys::OpenDirectory("", true, &made).code(), Code::kIOError);
}

TEST_F(SysTest, HolesTakeNoSpace) {
  ASSERT_TRUE(sys::Truncate(fd_.get(), 1 << 30).ok());
  UniqueFd dir;
  ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir).ok());
  uint64_t bytes = 1;
  ASSERT_TRUE(sys::AllocatedBytes(dir.get(), "f", &bytes).ok());
  EXPECT_EQ(bytes, 0u);
  bool supported = false;
  ASSERT_TRUE(sys::Fallocate(fd_.get(), true, 0, 65536, &supported).ok());
  if (!supported) GTEST_SKIP() << "the file system has no fallocate";
  ASSERT_TRUE(sys::AllocatedBytes(dir.get(), "f", &bytes).ok());
  EXPECT_GE(bytes, 65536u);
}

// In a child, because the limit cannot be raised again. A SIGXFSZ would end it with a signal.
TEST_F(SysTest, GrowthPastTheFileSizeLimitIsFull) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const struct rlimit limit = {4096, 4096};
    bool good = ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    char page[8192] = {};
    bool supported = false;
    good = good && sys::PwriteFull(fd_.get(), page, 4096, 0).ok();
    good = good && sys::PwriteFull(fd_.get(), page, 8192, 0).code() == Code::kFull;
    good = good && sys::Truncate(fd_.get(), 8192).code() == Code::kFull;
    good = good && sys::Fallocate(fd_.get(), false, 0, 8192, &supported).code() == Code::kFull;
    ::_exit(good ? 0 : 1);
  }
  int wait_status = 0;
  ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
  EXPECT_TRUE(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) << wait_status;
}

}  // namespace
}  // namespace engine_race
