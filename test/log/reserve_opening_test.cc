// SpaceReserve in an opening: recovery may use it, and then it is made or filled.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine_race/log/format.h"
#include "engine_race/log/space_reserve.h"
#include "test/faults/call_watch.h"
#include "test/faults/staging_test_util.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/log/row_test_util.h"
#include "test/log/space_reserve_fixture.h"

namespace engine_race::test {
namespace {

// A full disk from the call with this number on: calls that need space fail until a piece of the
// reserve is given up, and the reserve gets none back.
class FullDisk : public CallWatch {
 public:
  explicit FullDisk(uint64_t first_call = 0)
      : CallWatch([this, first_call](SystemCall* call) {
          const bool of_reserve =
              call->fd >= 0 && PathOfFd(call->fd).ends_with(format::kReserveName);
          if (call->kind == CallKind::kFtruncate && of_reserve) has_room_ = true;
          const bool needs_space =
              call->kind == CallKind::kPwrite || call->kind == CallKind::kFallocate;
          if (!needs_space || (has_room_ && !of_reserve)) return call->Proceed();
          if (call_count_++ < first_call) return call->Proceed();
          ++refused_count_;
          return Refuse(ENOSPC);
        }) {}
  uint64_t refused_count() const { return refused_count_; }

 private:
  std::atomic<bool> has_room_{false};
  std::atomic<uint64_t> call_count_{0};
  std::atomic<uint64_t> refused_count_{0};
};

// Otherwise a store on a full disk would not open again until somebody else makes room there.
TEST_F(SpaceReserveTest, ARecoveryUsesWhatAnEarlierOpeningMade) {
  FillAndRestart();
  FullDisk full;
  {
    const ScopedHook scope(&full);
    Open();
    ASSERT_NE(log_, nullptr);
  }
  EXPECT_GT(full.refused_count(), 0u);
  EXPECT_TRUE(reserve().is_given_up());
  ExpectHoldsExactly(log_.get(), 10);
  EXPECT_TRUE(reserve().TakeBack(/*has_released=*/true));
}

// Wherever in it the disk becomes full. The power was lost amid a batch, after a move.
TEST_F(SpaceReserveTest, EveryStepOfARecoveryMayUseIt) {
  Options options = TinyLogOptions(SyncMode::kEveryWrite);
  options.bucket_capacity_records = 1024;
  log_ = OpenLog(options, dir_.path());
  ASSERT_NO_FATAL_FAILURE(AppendMany(log_.get(), 100, 110 + 2 * log_->geometry().row_records()));
  uint32_t moved_row = 0;
  ASSERT_NO_FATAL_FAILURE(MoveRow(log_.get(), 0, /*from_row=*/0, &moved_row));
  KillImages images(dir_.path());
  TellingListener listener;
  listener.on_append = [&](uint32_t) {
    if (images.paths().empty()) images.Take();
  };
  ASSERT_NO_FATAL_FAILURE(Attach(log_.get(), &listener));
  ASSERT_TRUE(log_->Write(BatchOverAll(/*count=*/2, /*version=*/2)).ok());
  Detach(log_.get());
  ASSERT_FALSE(images.paths().empty());
  const std::string& image = images.paths().front();
  LosePower(image, log_->store_id());
  const Content content = ContentOf(log_.get());
  log_.reset();
  const std::string copy = dir_.Join("copy");
  uint64_t refused_count = 1;
  for (uint64_t first_call = 0; refused_count > 0; ++first_call) {
    SCOPED_TRACE(first_call);
    std::filesystem::remove_all(copy);
    std::filesystem::copy(image, copy, std::filesystem::copy_options::recursive);
    FullDisk full(first_call);
    {
      const ScopedHook scope(&full);
      log_ = OpenLog(options, copy);
      ASSERT_NE(log_, nullptr);
    }
    EXPECT_EQ(ContentOf(log_.get()), content);
    log_.reset();
    refused_count = full.refused_count();
  }
}

// On a full disk the recovery needs the space more than the reserve does.
TEST_F(SpaceReserveTest, ItTakesNoSpaceBeforeTheRecovery) {
  FillAndRestart();
  std::filesystem::remove(Path());
  bool reserved = false;
  CallWatch watch([&](SystemCall* call) {
    reserved = reserved || Reserves(*call);
    EXPECT_FALSE(reserved && call->kind == CallKind::kPwrite) << "the recovery writes later";
    return call->Proceed();
  });
  const ScopedHook scope(&watch);
  Open();
  EXPECT_TRUE(reserved);
  EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes);
}

// A process that died while it was given up, or a power loss before its blocks were durable, leaves
// a file that is missing, short, or without blocks.
TEST_F(SpaceReserveTest, AnOpeningMakesWhatIsMissing) {
  Open();
  for (const char* const what : {"missing", "short", "sparse"}) {
    log_.reset();
    std::filesystem::remove(Path());
    if (what != std::string("missing")) {
      std::ofstream(Path()).close();
      std::filesystem::resize_file(Path(), what == std::string("short") ? 0 : SpaceReserve::kBytes);
    }
    Open();
    EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes) << what;
    EXPECT_FALSE(reserve().is_given_up()) << what;
  }
}

// The disk may have room for values, and less than the reserve takes.
TEST_F(SpaceReserveTest, AfterAnOpeningWithoutRoomForItValuesAreRefusedOnceTheDiskIsFull) {
  Open();
  for (const uint64_t left : {uint64_t{1}, uint64_t{0}}) {
    log_.reset();
    std::filesystem::resize_file(Path(), left * SpaceReserve::kPieceBytes);
    CallWatch full(
        [](SystemCall* call) { return Reserves(*call) ? Refuse(ENOSPC) : call->Proceed(); });
    {
      const ScopedHook scope(&full);
      Open();
      EXPECT_FALSE(reserve().is_given_up());
      EXPECT_TRUE(reserve().TakeBack(/*has_released=*/true)) << "no write has failed";
      EXPECT_FALSE(reserve().is_given_up());
    }
    EXPECT_EQ(reserve().GiveUp(), left == 1);
    EXPECT_TRUE(reserve().is_given_up());
    EXPECT_FALSE(reserve().GiveUp());
    EXPECT_TRUE(reserve().TakeBack(/*has_released=*/true));
    EXPECT_FALSE(reserve().is_given_up());
  }
}

TEST_F(SpaceReserveTest, WhereNoSpaceCanBeReservedTheStoreGoesWithout) {
  CallWatch unsupported(
      [](SystemCall* call) { return Reserves(*call) ? Refuse(EOPNOTSUPP) : call->Proceed(); });
  const ScopedHook scope(&unsupported);
  Open();
  EXPECT_FALSE(reserve().is_given_up());
  EXPECT_FALSE(reserve().GiveUp());
  EXPECT_FALSE(reserve().is_given_up());
  EXPECT_TRUE(log_->Append(0, ValueOf(0, 1).data()).ok());
}

}  // namespace
}  // namespace engine_race::test
