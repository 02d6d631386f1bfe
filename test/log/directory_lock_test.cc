#include "engine_race/log/directory_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engine_race/base/process.h"
#include "engine_race/log/format.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0600;

class DirectoryLockTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok()); }

  Status Write(DirectoryLock* lock) { return DirectoryLock::TakeToWrite(Dir(), kMode, lock); }
  Status Read(DirectoryLock* lock) { return DirectoryLock::TakeToRead(Dir(), lock); }
  Code WriteCode() {
    DirectoryLock lock;
    return Write(&lock).code();
  }
  Code ReadCode() {
    DirectoryLock lock;
    return Read(&lock).code();
  }
  // The lock file of a store that exists.
  void MakeFile() {
    DirectoryLock lock;
    ASSERT_TRUE(Write(&lock).ok());
    lock.Settle();
  }
  std::string WhoHasIt();
  int Dir() const { return dir_fd_.get(); }
  std::string File() const { return dir_.Join(format::kLockName); }

  test::TempDir dir_;
  UniqueFd dir_fd_;
};

TEST_F(DirectoryLockTest, ASecondWriterOfTheProcessIsRefused) {
  DirectoryLock lock;
  ASSERT_TRUE(Write(&lock).ok());
  DirectoryLock other;
  const Status refused = Write(&other);
  EXPECT_EQ(refused.code(), Code::kIOError);
  EXPECT_NE(refused.message().find("open elsewhere"), std::string::npos) << refused.ToString();
  EXPECT_EQ(ReadCode(), Code::kIOError);
  EXPECT_TRUE(fs::exists(File())) << "it is not the refused one's to remove";
}

// What a refused writer is told.
std::string DirectoryLockTest::WhoHasIt() {
  DirectoryLock lock;
  const Status refused = Write(&lock);
  EXPECT_EQ(refused.code(), Code::kIOError);
  EXPECT_EQ(refused.error(), EAGAIN);
  EXPECT_TRUE(refused.path().ends_with(format::kLockName)) << refused.path();
  const std::string words = "the store is open elsewhere: ";
  const size_t at = refused.message().find(words);
  EXPECT_NE(at, std::string::npos) << refused.message();
  return at == std::string::npos ? "" : refused.message().substr(at + words.size());
}

TEST_F(DirectoryLockTest, TheRefusedOneIsToldThatThisProcessHasIt) {
  DirectoryLock lock;
  ASSERT_TRUE(Write(&lock).ok());
  EXPECT_EQ(WhoHasIt(), "this process has it");
  lock.Settle();
  lock = DirectoryLock();
  EXPECT_EQ(fs::file_size(File()), 0u) << "nobody has it";
}

TEST_F(DirectoryLockTest, TheRefusedOneIsToldThatOthersReadIt) {
  MakeFile();
  DirectoryLock lock;
  ASSERT_TRUE(Read(&lock).ok());
  EXPECT_EQ(WhoHasIt(), "it is being read, by a read-only opening, a verification or a copy");
}

// The text may be anything: only the lock keeps others out.
TEST_F(DirectoryLockTest, TheRefusedOneIsToldWhatIsKnownOfAnother) {
  DirectoryLock lock;
  ASSERT_TRUE(Write(&lock).ok());
  const ProcessName here = ThisProcess();
  const std::string init = "1 " + std::to_string(here.pid_namespace);
  // Linux has no process of that number.
  const std::string ended = "2147483647 " + std::to_string(here.pid_namespace);
  const std::pair<std::string, std::string> told[] = {
      {"", "its lock is held"},
      {"no process", "its lock is held"},
      {"99999999999 1 vast", "its lock is held"},
      {init + " systemd", "process 1 (systemd) has it"},
      {init + " with \x1b[31m colour", "process 1 (with ?[31m colour) has it"},
      {"7 5 postgres", "process 7 (postgres) of another container or machine has it"},
      {ended + " gone",
       "its lock is held, perhaps by a forked child of process 2147483647 (gone), which has ended"},
      {ToText(here), "this process has it"},
  };
  for (const auto& [text, words] : told) {
    std::ofstream(File()) << text;
    EXPECT_EQ(WhoHasIt(), words) << text;
  }
}

TEST_F(DirectoryLockTest, ReadersShareAndKeepWritersOut) {
  MakeFile();
  DirectoryLock first;
  DirectoryLock second;
  ASSERT_TRUE(Read(&first).ok());
  ASSERT_TRUE(Read(&second).ok());
  EXPECT_EQ(WriteCode(), Code::kIOError);
  first = DirectoryLock();
  EXPECT_EQ(WriteCode(), Code::kIOError);
  second = DirectoryLock();
  EXPECT_EQ(WriteCode(), Code::kOk);
}

// A lock of F_SETLK would be dropped.
TEST_F(DirectoryLockTest, IsKeptWhenTheFileIsOpenedAndClosedElsewhere) {
  DirectoryLock lock;
  ASSERT_TRUE(Write(&lock).ok());
  for (const int flags : {O_RDONLY, O_RDWR}) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(Dir(), format::kLockName, flags, 0, &fd).ok());
  }
  EXPECT_EQ(WriteCode(), Code::kIOError);
}

// Forks a child that runs `in_child`, and lives on until the object's end.
class ForkedChild {
 public:
  template <typename Work>
  explicit ForkedChild(const Work& in_child) {
    std::array<int, 2> started;
    EXPECT_EQ(::pipe2(lives_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(started.data(), O_CLOEXEC), 0);
    child_ = ::fork();
    char byte = 0;
    if (child_ == 0) {
      ::close(lives_[1]);
      in_child();
      static_cast<void>(::write(started[1], &byte, 1));
      static_cast<void>(::read(lives_[0], &byte, 1));  // to the end of the pipe
      ::_exit(0);
    }
    EXPECT_GT(child_, 0);
    EXPECT_EQ(::read(started[0], &byte, 1), 1);
    for (const int fd : started) ::close(fd);
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  ~ForkedChild() {
    ::close(lives_[1]);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
    ::close(lives_[0]);
  }

  pid_t pid() const { return child_; }

 private:
  std::array<int, 2> lives_;
  pid_t child_ = 0;
};

TEST_F(DirectoryLockTest, TheRefusedOneIsToldWhichProcessHasIt) {
  MakeFile();
  const ForkedChild child([this] {
    DirectoryLock lock;
    if (!Write(&lock).ok()) ::_exit(1);
    static_cast<void>(new DirectoryLock(std::move(lock)));  // to the end of the process
  });
  EXPECT_EQ(WhoHasIt(),
            "process " + std::to_string(child.pid()) + " (" + ThisProcess().program + ") has it");
}

TEST_F(DirectoryLockTest, AForkedChildKeepsItNoLongerThanItsOwner) {
  MakeFile();
  std::optional<DirectoryLock> lock(std::in_place);
  ASSERT_TRUE(Write(&*lock).ok());
  const ForkedChild child([] {});
  EXPECT_EQ(WriteCode(), Code::kIOError);
  lock.reset();
  EXPECT_EQ(WriteCode(), Code::kOk);
}

TEST_F(DirectoryLockTest, AForkedChildDoesNotDropItsOwnersLock) {
  std::optional<DirectoryLock> lock(std::in_place);
  ASSERT_TRUE(Write(&*lock).ok());
  const ForkedChild child([&] { lock.reset(); });
  EXPECT_TRUE(fs::exists(File()));
  EXPECT_EQ(WriteCode(), Code::kIOError);
}

TEST_F(DirectoryLockTest, AProcessThatIsKilledGivesItBack) {
  MakeFile();
  std::array<int, 2> pipe_fds;
  ASSERT_EQ(::pipe2(pipe_fds.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    DirectoryLock lock;
    const char answer = Write(&lock).ok() ? 'y' : 'n';
    static_cast<void>(::write(pipe_fds[1], &answer, 1));
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(pipe_fds[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(WriteCode(), Code::kIOError);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(WriteCode(), Code::kOk);
  for (const int fd : pipe_fds) ::close(fd);
}

// One that follows sees how far a writer is, and keeps none out.
TEST_F(DirectoryLockTest, AWatchedFileTellsOfItsWriter) {
  using Writer = DirectoryLock::Writer;
  DirectoryLock watched;
  EXPECT_EQ(DirectoryLock::Watch(Dir(), &watched).code(), Code::kNotFound);
  MakeFile();
  ASSERT_TRUE(DirectoryLock::Watch(Dir(), &watched).ok());
  const auto look = [&watched] {
    DirectoryLock::Sight sight;
    EXPECT_TRUE(watched.Look(&sight).ok());
    return sight;
  };
  EXPECT_EQ(look().writer, Writer::kNone);
  EXPECT_EQ(look().opening_id, 0u);
  {
    DirectoryLock lock;
    ASSERT_TRUE(Write(&lock).ok());
    EXPECT_EQ(look().writer, Writer::kOpening);
    ASSERT_TRUE(lock.NoteComplete(77).ok());
    EXPECT_EQ(look().writer, Writer::kComplete);
    EXPECT_EQ(look().opening_id, 77u);
  }
  EXPECT_EQ(look().writer, Writer::kNone);
  EXPECT_EQ(look().opening_id, 0u);
  // A writer that is killed leaves the text, and not the lock.
  for (const bool is_complete : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      DirectoryLock lock;
      const bool taken = Write(&lock).ok() && (!is_complete || lock.NoteComplete(78).ok());
      ::_exit(taken ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    EXPECT_EQ(look().writer, is_complete ? Writer::kNone : Writer::kInterrupted);
    EXPECT_EQ(look().opening_id, is_complete ? 78u : 0u);
  }
  bool is_there = false;
  ASSERT_TRUE(watched.IsThere(Dir(), &is_there).ok());
  EXPECT_TRUE(is_there);
  fs::remove(File());
  ASSERT_TRUE(watched.IsThere(Dir(), &is_there).ok());
  EXPECT_FALSE(is_there);
}

TEST_F(DirectoryLockTest, OnlyASettledOneLeavesItsFile) {
  EXPECT_EQ(WriteCode(), Code::kOk);
  EXPECT_FALSE(fs::exists(File()));
  MakeFile();
  EXPECT_TRUE(fs::exists(File()));
  EXPECT_EQ(WriteCode(), Code::kOk);
  EXPECT_TRUE(fs::exists(File())) << "it was there before";
}

TEST_F(DirectoryLockTest, ReadersMakeNoFile) {
  EXPECT_EQ(ReadCode(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(File()));
}

// Calls before(n) before the lock is asked for the n-th time.
class BeforeLock : public test::SystemCallHook {
 public:
  explicit BeforeLock(std::function<void(int)> before) : before_(std::move(before)) {}
  long OnCall(test::SystemCall* call) override {
    if (call->kind == test::CallKind::kFileLock) before_(++count_);
    return call->Proceed();
  }

 private:
  const std::function<void(int)> before_;
  int count_ = 0;
};

TEST_F(DirectoryLockTest, AReaderWaitsForTheEndOfARecovery) {
  MakeFile();
  std::optional<DirectoryLock> recovery(std::in_place);
  ASSERT_TRUE(
      DirectoryLock::TakeToWrite(Dir(), kMode, &*recovery, DirectoryLock::Purpose::kRecovery).ok());
  EXPECT_EQ(WhoHasIt(), "this process has it");
  // Longer than for a holder without a name. At its end the name goes before the lock.
  BeforeLock end([&](int count) {
    if (count == 20) fs::resize_file(File(), 0);
    if (count == 23) recovery.reset();
  });
  const test::ScopedHook hook(&end);
  EXPECT_EQ(ReadCode(), Code::kOk);
}

// Between its lock and its name, or at its end.
TEST_F(DirectoryLockTest, AReaderWaitsALittleForAHolderWithoutAName) {
  MakeFile();
  std::optional<DirectoryLock> lock(std::in_place);
  ASSERT_TRUE(Write(&*lock).ok());
  fs::resize_file(File(), 0);
  EXPECT_EQ(ReadCode(), Code::kIOError);
  BeforeLock end([&](int count) {
    if (count == 3) lock.reset();
  });
  const test::ScopedHook hook(&end);
  EXPECT_EQ(ReadCode(), Code::kOk);
}

// A refused opening removes its file: a lock of that one would exclude nobody.
TEST_F(DirectoryLockTest, AFileThatIsRemovedMeanwhileIsNotTakenForTheLock) {
  DirectoryLock lock;
  BeforeLock remove([this](int count) {
    if (count == 1) fs::remove(File());
  });
  {
    const test::ScopedHook hook(&remove);
    ASSERT_TRUE(Write(&lock).ok());
  }
  EXPECT_TRUE(fs::exists(File()));
  EXPECT_EQ(WriteCode(), Code::kIOError);
  lock.Settle();
  lock = DirectoryLock();
  BeforeLock remove_again([this](int count) {
    if (count == 1) fs::remove(File());
  });
  const test::ScopedHook hook(&remove_again);
  EXPECT_EQ(ReadCode(), Code::kIOError);
}

// Answers as a kernel without such locks does.
class NoLocks : public test::SystemCallHook {
 public:
  explicit NoLocks(int error) : error_(error) {}
  long OnCall(test::SystemCall* call) override {
    if (call->kind != test::CallKind::kFileLock) return call->Proceed();
    errno = error_;
    return -1;
  }

 private:
  const int error_;
};

TEST_F(DirectoryLockTest, WithoutSuchLocksItIsRefused) {
  for (const int error : {EINVAL, ENOSYS, ENOLCK, EOPNOTSUPP}) {
    NoLocks none(error);
    const test::ScopedHook hook(&none);
    DirectoryLock lock;
    const Status refused = Write(&lock);
    EXPECT_EQ(refused.code(), Code::kNotSupported) << refused.ToString();
    EXPECT_NE(refused.message().find("locks"), std::string::npos) << refused.ToString();
    EXPECT_FALSE(fs::exists(File()));
  }
  MakeFile();
  NoLocks none(ENOLCK);
  const test::ScopedHook hook(&none);
  EXPECT_EQ(WriteCode(), Code::kNotSupported);
  EXPECT_EQ(ReadCode(), Code::kNotSupported);
  EXPECT_TRUE(fs::exists(File()));
}

TEST_F(DirectoryLockTest, ASymlinkIsNoLockFile) {
  std::ofstream(dir_.Join("other")) << "text";
  fs::create_symlink(dir_.Join("other"), File());
  EXPECT_EQ(WriteCode(), Code::kCorruption);
  EXPECT_EQ(ReadCode(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race
