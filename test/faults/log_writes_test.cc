// Groups that fill neighbouring slots are written with pwrite, which has ended when it returns. A
// request handed to io_uring may reach the file after the next opener has written there.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Notes what pwrite has written, block by block, of each file.
class NotesWrites : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const long result = call->Proceed();
    if (call->kind == CallKind::kPwrite && result > 0) {
      const std::string path = PathOf(*call);
      for (off_t at = call->offset; at < call->offset + result; at += kIoAlignment) {
        ++blocks_[{path.substr(path.rfind('/') + 1), static_cast<uint64_t>(at)}];
      }
    }
    return result;
  }

  int WriteCount(const std::string& file, uint64_t offset) const {
    const auto found = blocks_.find({file, offset / kIoAlignment * kIoAlignment});
    return found == blocks_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<std::string, uint64_t>, int> blocks_;
};

TEST(LogWritesTest, EveryLoggedGroupWasWrittenByACallThatHasEnded) {
  const TempDir dir;
  NotesWrites notes;
  const ScopedHook hook(&notes);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  constexpr uint64_t kCount = 600;
  for (uint64_t key = 0; key < kCount; ++key) {
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
  }
  const uint64_t logged_watermark = log->LoggedValueWatermark(0);
  ASSERT_EQ(logged_watermark, kCount);
  for (uint64_t slot = 0; slot < logged_watermark; ++slot) {
    ASSERT_EQ(notes.WriteCount("value_00", log->slots().LocateValues(0, slot).offset), 1) << slot;
  }
  // Two groups of keys are full.
  for (uint64_t slot = 0; slot < 512; ++slot) {
    ASSERT_EQ(notes.WriteCount("key_00", log->slots().LocateKeys(0, slot).offset), 1) << slot;
  }
}

}  // namespace
}  // namespace engine_race::test
