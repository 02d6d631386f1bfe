#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "engine_race/base/sys.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;
using test::CallKind;
using test::SystemCall;
using Events = std::vector<std::string>;

// Notes which directories are made and flushed, by the names behind `root`.
class DirectoryWatch : public test::SystemCallHook {
 public:
  explicit DirectoryWatch(const std::string& root) : root_(fs::canonical(root).string()) {}

  long OnCall(SystemCall* call) override {
    const std::string path = test::PathOf(*call);
    if (call->kind == CallKind::kMkdirAt) events.push_back("make " + Relative(path));
    if (call->kind == CallKind::kFsync) events.push_back("flush " + Relative(path));
    if (call->kind == CallKind::kOpenAt && std::string(call->name) == "." && !unreadable.empty() &&
        fs::path(path).parent_path() == unreadable) {
      errno = EACCES;
      return -1;
    }
    return call->Proceed();
  }

  // A directory that cannot be opened for reading.
  std::string unreadable;
  Events events;

 private:
  std::string Relative(const std::string& path) const {
    if (path == root_) return "/";
    return path.starts_with(root_) ? path.substr(root_.size()) : "outside";
  }

  const std::string root_;
};

class SysDirectoriesTest : public testing::Test {
 protected:
  Status Make(const std::string& path, mode_t mode = 0700) {
    UniqueFd fd;
    const test::ScopedHook hook(&watch_);
    return sys::OpenDirectory(path, /*create=*/true, &fd, mode);
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat info = {};
    EXPECT_EQ(::stat(dir_.Join(name).c_str(), &info), 0) << name;
    return info.st_mode & 0777;
  }

  test::TempDir dir_;
  DirectoryWatch watch_{dir_.path()};
};

TEST_F(SysDirectoriesTest, EachNameIsDurableBeforeTheNextIsMade) {
  fs::create_directory(dir_.Join("there"));
  ASSERT_TRUE(Make(dir_.Join("there/a/b/")).ok());
  // The deepest that exists may be what a killed creation has made and not flushed.
  EXPECT_EQ(watch_.events, (Events{"flush /", "make /there/a", "flush /there", "make /there/a/b",
                                   "flush /there/a"}));
  watch_.events.clear();
  ASSERT_TRUE(Make(dir_.Join("there/a/b")).ok());
  EXPECT_EQ(watch_.events, Events{});
}

TEST_F(SysDirectoriesTest, TheNameOfOneThatExistsIsMadeDurable) {
  ASSERT_TRUE(Make(dir_.Join("a/b")).ok());
  watch_.events.clear();
  for (const std::string& path : {dir_.Join("a/b"), dir_.Join("a//./b/."), std::string("a/b")}) {
    const fs::path before = fs::current_path();
    fs::current_path(dir_.path());
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenDirectory(path, false, &fd).ok());
    {
      const test::ScopedHook hook(&watch_);
      EXPECT_TRUE(sys::SyncNameOf(path, fd.get()).ok()) << path;
    }
    fs::current_path(before);
  }
  EXPECT_EQ(watch_.events, (Events{"flush /a", "flush /a", "flush /a"}));
  UniqueFd root;
  ASSERT_TRUE(sys::OpenDirectory("/", false, &root).ok());
  EXPECT_TRUE(sys::SyncNameOf("/", root.get()).ok());
}

// The parent cannot be flushed; its file system is flushed instead.
TEST_F(SysDirectoriesTest, AParentThatMayNotBeReadIsNoObstacle) {
  fs::create_directory(dir_.Join("closed"));
  watch_.unreadable = fs::canonical(dir_.Join("closed")).string();
  const Status made = Make(dir_.Join("closed/a/b"));
  ASSERT_TRUE(made.ok()) << made.ToString();
  EXPECT_EQ(watch_.events,
            (Events{"flush /", "make /closed/a", "make /closed/a/b", "flush /closed/a"}));
}

TEST_F(SysDirectoriesTest, ModesAreOfWhatIsMadeAlone) {
  fs::create_directory(dir_.Join("given"));
  ASSERT_EQ(::chmod(dir_.Join("given").c_str(), 0755), 0);
  const mode_t before = ::umask(0027);
  EXPECT_TRUE(Make(dir_.Join("given")).ok());
  EXPECT_TRUE(Make(dir_.Join("given/a/b")).ok());
  EXPECT_TRUE(Make(dir_.Join("given/c"), 0777).ok());
  ::umask(before);
  EXPECT_EQ(ModeOf("given"), 0755u);
  EXPECT_EQ(ModeOf("given/a"), 0700u);
  EXPECT_EQ(ModeOf("given/a/b"), 0700u);
  EXPECT_EQ(ModeOf("given/c"), 0750u);
}

TEST_F(SysDirectoriesTest, DotDotLeadsWhereTheKernelSays) {
  fs::create_directories(dir_.Join("x/y"));
  fs::create_directory_symlink(dir_.Join("x/y"), dir_.Join("link"));
  ASSERT_TRUE(Make(dir_.Join("link/../z")).ok());
  EXPECT_TRUE(fs::is_directory(dir_.Join("x/z")));
  EXPECT_FALSE(fs::exists(dir_.Join("z")));
  EXPECT_EQ(Make(dir_.Join("missing/../z")).code(), Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(dir_.Join("missing")));
}

TEST_F(SysDirectoriesTest, ASymlinkThatLeadsNowhereIsNotMadeADirectory) {
  fs::create_symlink(dir_.Join("nowhere"), dir_.Join("link"));
  EXPECT_EQ(Make(dir_.Join("link")).code(), Code::kIOError);
  EXPECT_EQ(Make(dir_.Join("link/a")).code(), Code::kIOError);
  EXPECT_FALSE(fs::exists(dir_.Join("nowhere")));
}

TEST_F(SysDirectoriesTest, NothingIsMadeAmongDevices) {
  fs::create_directory_symlink("/dev", dir_.Join("link"));
  const std::string name = "engine_race-no-such-disk";
  for (const std::string& path : {"/dev/" + name, "/dev/" + name + "/a", "/../dev/./" + name,
                                  dir_.Join("link/" + name), "/dev/shm/../" + name}) {
    const Status made = Make(path);
    EXPECT_EQ(made.code(), Code::kInvalidArgument) << path << ": " << made.ToString();
    EXPECT_NE(made.message().find(path), std::string::npos) << made.ToString();
  }
  EXPECT_EQ(watch_.events, Events{});
  EXPECT_FALSE(fs::exists("/dev/" + name));
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenDirectory("/dev", false, &fd).ok());
  EXPECT_EQ(sys::RefuseAmongDevices("/dev", fd.get()).code(), Code::kInvalidArgument);
}

// /dev/shm is known to be memory: a directory there is no mistake.
TEST_F(SysDirectoriesTest, MemoryThatIsAskedForIsGiven) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm here";
  const test::TempDir memory("/dev/shm");
  EXPECT_TRUE(Make(memory.Join("a/b")).ok());
}

TEST_F(SysDirectoriesTest, ListsWhatIsThere) {
  ASSERT_TRUE(Make(dir_.Join("a")).ok());
  ASSERT_TRUE(Make(dir_.Join("b")).ok());
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &fd).ok());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::string> names;
    ASSERT_TRUE(sys::ListDirectory(fd.get(), &names).ok());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  }
}

}  // namespace
}  // namespace engine_race
