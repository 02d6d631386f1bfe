// A reader of a staged record, stopped between its look at the places and its read of one, while
// writers go on.
#include <gtest/gtest.h>

#include <string>

#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Writes records, enough to want every place again, just before the first read of a staged value.
class WritesBeforeTheRead : public SystemCallHook {
 public:
  explicit WritesBeforeTheRead(BucketLog* log) : log_(log) {}

  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread && !met_ &&
        PathOf(*call).ends_with(format::kStagingValuesName)) {
      met_ = true;
      const uint64_t count = 2 * format::kValuePlaces * log_->geometry().values_per_group();
      for (uint64_t key = 100; key < 100 + count; ++key) {
        EXPECT_TRUE(log_->Append(key, ValueOf(key, 2).data()).ok());
      }
    }
    return call->Proceed();
  }
  bool met() const { return met_; }

 private:
  BucketLog* const log_;
  bool met_ = false;
};

TEST(StagedReaderTest, APlaceIsNotGivenAwayUnderItsReader) {
  const TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->Append(7, ValueOf(7, 1).data()).ok());
  WritesBeforeTheRead writer(log.get());
  const ScopedHook hook(&writer);
  EXPECT_EQ(ReadSlot(*log, 0, 0), ValueOf(7, 1));
  EXPECT_TRUE(writer.met());
  EXPECT_GT(log->LoggedValueWatermark(0), 0u) << "the group has left its place meanwhile";
}

}  // namespace
}  // namespace engine_race::test
