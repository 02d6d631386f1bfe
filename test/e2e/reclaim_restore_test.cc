// A store whose slots are used again while its index is restored from disk.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "test/e2e/reclaim_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

// Compacts the store once, when an entry of a key log is about to be read.
class CompactAtRead : public SystemCallHook {
 public:
  explicit CompactAtRead(Store* store) : store_(store) {}
  long OnCall(SystemCall* call) override {
    const bool is_read =
        call->kind == CallKind::kPread && PathOfFd(call->fd).find("/key_0") != std::string::npos;
    if (is_read && !done_.exchange(true)) status = store_->Compact();
    return call->Proceed();
  }

  Status status = Status(Code::kIncomplete, {});

 private:
  Store* const store_;
  std::atomic<bool> done_{false};
};

// The index on disk names slots of before that.
TEST_F(ReclaimTest, ABucketIsCompactedWhileItsIndexIsRestored) {
  constexpr uint64_t kKeys = 10 * kRowRecords;
  SetRegions(64);
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  // In the first bucket. They fill whole groups, so that the last entry is in the key log.
  for (uint64_t n = 0; n < kKeys + kKeys / 2; ++n) {
    const uint64_t key = n < kKeys ? n : 2 * (n - kKeys);
    ASSERT_TRUE(store_->Write(KeyBytes(key).view(), ValueOf(key, n)).ok());
    held_[key] = n;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  store_.reset();
  ASSERT_TRUE(std::filesystem::exists(dir_.Join(format::kIndexRootName)));
  ASSERT_NO_FATAL_FAILURE(Open());
  CompactAtRead compact(store_.get());
  {
    const ScopedHook hook(&compact);
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  }
  EXPECT_TRUE(compact.status.ok()) << compact.status.ToString();
  EXPECT_TRUE(HasRowFile());
}

}  // namespace
}  // namespace engine_race::test
