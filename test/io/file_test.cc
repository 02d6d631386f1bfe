#include "engine_race/io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

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

constexpr Access kAccesses[] = {Access::kRead, Access::kReadWrite, Access::kCreate};

TEST_F(FileTest, SymlinksAreNotFollowed) {
  std::ofstream(dir_.Join("target")) << "untouched";
  std::filesystem::create_symlink(dir_.Join("target"), dir_.Join("link"));
  std::filesystem::create_symlink(dir_.Join("missing"), dir_.Join("dangling"));
  for (const char* name : {"link", "dangling"}) {
    for (const Access access : kAccesses) {
      for (const Caching caching : {Caching::kBuffered, Caching::kDirect}) {
        File file;
        const Status refused = File::Open(dir_fd_.get(), name, access, caching, &file);
        EXPECT_EQ(refused.code(), Code::kCorruption) << refused.ToString();
        EXPECT_NE(refused.message().find(name), std::string::npos) << refused.ToString();
        EXPECT_NE(refused.message().find("Options::paths"), std::string::npos);
      }
    }
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.Join("missing")));
}

// Opening a pipe must not wait either: nobody opens its other end here.
TEST_F(FileTest, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo(dir_.Join("pipe").c_str(), 0600), 0);
  File file;
  for (const Access access : kAccesses) {
    const Status refused = File::Open(dir_fd_.get(), "pipe", access, Caching::kBuffered, &file);
    EXPECT_FALSE(refused.ok());
    EXPECT_NE(refused.message().find("pipe"), std::string::npos) << refused.ToString();
  }
  std::filesystem::create_directory(dir_.Join("directory"));
  EXPECT_EQ(File::Open(dir_fd_.get(), "directory", Access::kRead, Caching::kBuffered, &file).code(),
            Code::kCorruption);
}

// io_uring would give up a read that has to wait.
TEST_F(FileTest, FilesWait) {
  for (const Caching caching : {Caching::kBuffered, Caching::kDirect}) {
    File file;
    ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, caching, &file).ok());
    const int flags = ::fcntl(file.fd(), F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0);
    EXPECT_EQ((flags & O_DIRECT) != 0, file.direct());
  }
}

TEST_F(FileTest, AReplacedFileIsAnotherOne) {
  std::ofstream(dir_.Join("target")) << "untouched";
  std::filesystem::create_symlink(dir_.Join("target"), dir_.Join("link"));
  std::filesystem::create_hard_link(dir_.Join("target"), dir_.Join("name"));
  for (const char* name : {"link", "name", "absent", "absent"}) {
    for (const Caching caching : {Caching::kBuffered, Caching::kDirect}) {
      File file;
      const Status opened = File::Open(dir_fd_.get(), name, Access::kReplace, caching, &file);
      ASSERT_TRUE(opened.ok()) << opened.ToString();
      uint64_t size_bytes = 1;
      ASSERT_TRUE(file.Size(&size_bytes).ok());
      EXPECT_EQ(size_bytes, 0u) << name;
      ASSERT_TRUE(file.Truncate(4096).ok());
    }
  }
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("target")), 9u);
}

TEST_F(FileTest, ReplaceFileLeavesNothingButTheNewContent) {
  const auto content_of = [this](const char* name) {
    std::ifstream file(dir_.Join(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(dir_.Join("f")) << "the old content";
  std::ofstream(dir_.Join("f.temp")) << "what an interrupted call has left";
  std::ifstream old(dir_.Join("f"));
  ASSERT_TRUE(ReplaceFile(dir_fd_.get(), "f.temp", "f", "new", 0640).ok());
  EXPECT_EQ(content_of("f"), "new");
  EXPECT_FALSE(std::filesystem::exists(dir_.Join("f.temp")));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(old), {}), "the old content")
      << "the file itself was written over";
  // The new name cannot be taken: it is a directory.
  std::filesystem::create_directory(dir_.Join("d"));
  EXPECT_FALSE(ReplaceFile(dir_fd_.get(), "d.temp", "d", "new", 0640).ok());
}

TEST_F(FileTest, NewFilesAreTheirUsersAlone) {
  const auto mode_of = [this](const char* name) {
    struct stat info = {};
    EXPECT_EQ(::stat(dir_.Join(name).c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  File file;
  const mode_t before = ::umask(0027);
  ASSERT_TRUE(File::Open(dir_fd_.get(), "a", Access::kCreate, Caching::kBuffered, &file).ok());
  ASSERT_TRUE(
      File::Open(dir_fd_.get(), "b", Access::kReplace, Caching::kBuffered, &file, 0666).ok());
  ::umask(before);
  EXPECT_EQ(mode_of("a"), 0600u);
  EXPECT_EQ(mode_of("b"), 0640u);
}

TEST_F(FileTest, ReadOnlyFilesRefuseWrites) {
  File file;
  ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, Caching::kBuffered, &file).ok());
  ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kRead, Caching::kBuffered, &file).ok());
  EXPECT_EQ(file.Write("x", 1, 0).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::io
