// The layer itself: every call of the library's passes the hook, and the hook has the last word.
#include "test/faults/system_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "engine_race/base/sys.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

// Counts the calls below a directory, by kind.
class CountingHook : public SystemCallHook {
 public:
  explicit CountingHook(std::string dir) : dir_(std::move(dir)) {}

  long OnCall(SystemCall* call) override {
    const bool without_file =
        call->kind == CallKind::kGetrandom || call->kind == CallKind::kIoSetup ||
        call->kind == CallKind::kIoSubmit || call->kind == CallKind::kIoGetEvents;
    if (without_file || PathOf(*call).starts_with(dir_)) ++counts_[static_cast<size_t>(call->kind)];
    return call->Proceed();
  }
  int count(CallKind kind) const { return counts_[static_cast<size_t>(kind)]; }

 private:
  const std::string dir_;
  std::array<std::atomic<int>, kCallKindCount> counts_{};
};

TEST(SystemCallsTest, TheHookSeesWhatAStoreDoes) {
  TempDir dir;
  CountingHook hook(dir.path());
  {
    const ScopedHook scope(&hook);
    for (int opening = 0; opening < 2; ++opening) {
      Options options = TinyOptions();
      options.io_backend = IoBackend::kLibaio;
      const std::unique_ptr<Store> store = OpenStore(dir.Join("store"), options);
      for (uint64_t i = 0; i < 600; ++i) {
        ASSERT_TRUE(store->Write(KeyOf(i << 54), ValueOf(i << 54, 1)).ok());
      }
      ASSERT_TRUE(store->Sync().ok());
      EXPECT_EQ(VersionOf(store.get(), uint64_t{1} << 54), 1u);
      EXPECT_EQ(RangeOf(store.get(), "", "").size(), 600u);
    }
  }
  for (const CallKind kind :
       {CallKind::kPread, CallKind::kPwrite, CallKind::kFsync, CallKind::kFdatasync,
        CallKind::kFallocate, CallKind::kFtruncate, CallKind::kOpenAt, CallKind::kRenameAt,
        CallKind::kMmap, CallKind::kFstat, CallKind::kFstatAt, CallKind::kFileLock,
        CallKind::kClose, CallKind::kGetrandom, CallKind::kIoSetup, CallKind::kIoSubmit,
        CallKind::kIoGetEvents}) {
    EXPECT_GT(hook.count(kind), 0) << CallName(kind);
  }
  const int before = hook.count(CallKind::kOpenAt);
  OpenStore(dir.Join("store"));
  EXPECT_EQ(hook.count(CallKind::kOpenAt), before) << "the hook is gone";
}

TEST(SystemCallsTest, TheHookMayRedirectAnOpen) {
  class Redirect : public SystemCallHook {
   public:
    explicit Redirect(std::string to) : to_(std::move(to)) {}
    long OnCall(SystemCall* call) override {
      if (call->kind == CallKind::kOpenAt && PathOf(*call) == "/no/such/file") {
        call->name = to_.c_str();
      }
      return call->Proceed();
    }
    const std::string to_;
  };
  TempDir dir;
  Redirect hook(dir.path());
  UniqueFd fd;
  {
    const ScopedHook scope(&hook);
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, "/no/such/file", O_RDONLY | O_DIRECTORY, 0, &fd).ok());
  }
  EXPECT_EQ(PathOfFd(fd.get()), dir.path());
}

TEST(SystemCallsTest, TheHookMayAnswerInPlaceOfTheKernel) {
  class Refuse : public SystemCallHook {
   public:
    long OnCall(SystemCall* call) override {
      if (call->kind != CallKind::kGetrandom) return call->Proceed();
      errno = ENOSYS;
      return -1;
    }
  };
  Refuse hook;
  uint64_t word = 0;
  {
    const ScopedHook scope(&hook);
    EXPECT_EQ(sys::RandomWord(&word).code(), Code::kIOError);
  }
  EXPECT_TRUE(sys::RandomWord(&word).ok());
}

}  // namespace
}  // namespace engine_race::test
