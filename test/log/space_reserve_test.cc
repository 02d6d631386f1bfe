// SpaceReserve: the space that deletions and moves have on a full disk, and who may use it.
#include "engine_race/log/space_reserve.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/vfs.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "engine_race/log/format.h"
#include "test/faults/call_watch.h"
#include "test/faults/staging_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/row_test_util.h"
#include "test/log/space_reserve_fixture.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kPieces = SpaceReserve::kBytes / SpaceReserve::kPieceBytes;

TEST_F(SpaceReserveTest, IsGivenUpPieceByPieceAndTakenBack) {
  Open();
  EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes);
  EXPECT_FALSE(reserve().is_given_up());
  for (uint64_t left = kPieces; left > 0; --left) {
    EXPECT_TRUE(reserve().GiveUp());
    EXPECT_TRUE(reserve().is_given_up());
    EXPECT_EQ(AllocatedBytes(), (left - 1) * SpaceReserve::kPieceBytes);
  }
  EXPECT_FALSE(reserve().GiveUp());
  EXPECT_TRUE(reserve().TakeBack());
  EXPECT_FALSE(reserve().is_given_up());
  EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes);
}

TEST_F(SpaceReserveTest, AWriteGetsOnePieceAfterTheOther) {
  Open();
  uint64_t tries = 0;
  const auto succeeds_third = [&] {
    return ++tries == 3 ? Status::Ok() : Status::Full("no space");
  };
  EXPECT_TRUE(reserve().Write(succeeds_third).ok());
  EXPECT_EQ(AllocatedBytes(), SpaceReserve::kBytes - 2 * SpaceReserve::kPieceBytes);
  tries = 0;
  const auto never = [&] {
    ++tries;
    return Status::Full("no space");
  };
  EXPECT_EQ(reserve().Write(never).code(), Code::kFull);
  EXPECT_EQ(tries, kPieces - 2 + 1);
  tries = 0;
  const auto fails = [&] {
    ++tries;
    return Status::IOError("broken");
  };
  EXPECT_EQ(reserve().Write(fails).code(), Code::kIOError);
  EXPECT_EQ(tries, 1u);
}

// The user's code runs without the lock.
TEST_F(SpaceReserveTest, TheLogCallbackMayAskForIt) {
  uint64_t told_count = 0;
  Options options = TinyLogOptions();
  options.log = [&](LogLevel, std::string_view message) {
    if (message.find("is given up") == std::string_view::npos) return;
    ++told_count;
    EXPECT_TRUE(reserve().TakeBack());
  };
  log_ = OpenLog(options, dir_.path());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(reserve().GiveUp());
  EXPECT_EQ(told_count, 1u) << "once an opening";
}

// Without any of it, nothing could be freed any more.
TEST_F(SpaceReserveTest, SyncAndDeletionsLeaveSomeForEntries) {
  Open();
  for (const uint64_t left : {SpaceReserve::kLeftBySync, SpaceReserve::kLeftByValues,
                              SpaceReserve::kLeftByEntries, uint64_t{0}}) {
    UseUpTo(left);
    EXPECT_EQ(AllocatedBytes(), left);
  }
}

// A deletion that fills a group brings its values to the log.
TEST_F(SpaceReserveTest, ValuesDoNotUsePiecesThatEntriesGaveUp) {
  Open();
  auto append_group = [&, key = uint64_t{0}]() mutable {
    const uint64_t group = log_->geometry().values_per_group();
    ASSERT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    for (++key; key % group != 0; ++key) ASSERT_TRUE(log_->Append(key, nullptr).ok());
  };
  CallWatch full(
      [](SystemCall* call) { return Reserves(*call) ? Refuse(ENOSPC) : call->Proceed(); });
  {
    const ScopedHook scope(&full);
    UseUpTo(SpaceReserve::kLeftByValues);
    EXPECT_TRUE(MayLogValues());
    append_group();
    EXPECT_TRUE(log_->Sync().ok());
    UseUpTo(SpaceReserve::kLeftByEntries);
    EXPECT_FALSE(MayLogValues());
    append_group();
    EXPECT_EQ(log_->Sync().code(), Code::kFull);
  }
  // There may be room by now.
  ASSERT_TRUE(reserve().TakeBack(/*has_released=*/true));
  EXPECT_TRUE(MayLogValues());
  EXPECT_TRUE(log_->Sync().ok());
}

TEST_F(SpaceReserveTest, IsTakenBackForValuesOnceThereIsRoom) {
  Open();
  ASSERT_TRUE(log_->Append(1, ValueOf(1, 1).data()).ok());
  for (uint64_t i = 0; i < kPieces; ++i) ASSERT_TRUE(reserve().GiveUp());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_FALSE(reserve().is_given_up());
}

TEST_F(SpaceReserveTest, TombstonesAreWrittenWhereValuesAreRefused) {
  Open();
  UseUpTo(SpaceReserve::kLeftByEntries);
  const uint64_t group = log_->geometry().values_per_group();
  for (uint64_t key = 0; key < group; ++key) ASSERT_TRUE(log_->Append(key, nullptr).ok());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_EQ(RecordsOf(log_.get(), 0).size(), group);
}

// The write of entries gives up one more piece after values have used theirs.
TEST_F(SpaceReserveTest, EntriesMayUseWhatValuesLeave) {
  Open();
  UseUpTo(SpaceReserve::kLeftByValues);
  const uint64_t group = log_->geometry().values_per_group();
  CallWatch full([&](SystemCall* call) {
    const bool of_keys = call->kind == CallKind::kPwrite && call->fd >= 0 &&
                         PathOfFd(call->fd).find("/key_") != std::string::npos;
    return of_keys && AllocatedBytes() == SpaceReserve::kLeftByValues ? Refuse(ENOSPC)
                                                                      : call->Proceed();
  });
  const ScopedHook scope(&full);
  for (uint64_t key = 0; key < group; ++key) ASSERT_TRUE(log_->Append(key, nullptr).ok());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_EQ(AllocatedBytes(), SpaceReserve::kLeftByValues - SpaceReserve::kPieceBytes);
}

// There may be no descriptor for it, or a failure of the device.
TEST_F(SpaceReserveTest, APieceThatCannotBeGivenUpIsNotLost) {
  Open();
  for (const CallKind kind : {CallKind::kOpenAt, CallKind::kFtruncate}) {
    CallWatch refusal([kind](SystemCall* call) {
      const bool of_reserve = call->kind == CallKind::kOpenAt
                                  ? std::string(call->name) == format::kReserveName
                                  : call->kind == CallKind::kFtruncate;
      return call->kind == kind && of_reserve ? Refuse(kind == CallKind::kOpenAt ? EMFILE : EIO)
                                              : call->Proceed();
    });
    const ScopedHook scope(&refusal);
    for (uint64_t i = 0; i < 2 * kPieces; ++i) EXPECT_FALSE(reserve().GiveUp());
    EXPECT_TRUE(reserve().is_given_up()) << "the disk is full all the same";
  }
  EXPECT_EQ(AllocatedBytes(), SpaceReserve::kBytes);
  for (uint64_t left = kPieces; left > 0; --left) EXPECT_TRUE(reserve().GiveUp());
  EXPECT_EQ(AllocatedBytes(), 0u);
  EXPECT_TRUE(reserve().TakeBack());
}

// No file could be cut, so the whole reserve is there; or it would give nothing back. Once there is
// room, values are taken again.
TEST_F(SpaceReserveTest, ADiskThatWasFullIsLeftAlsoWhereNothingCouldBeCut) {
  const std::string other = dir_.Join("other");
  CallWatch no_descriptor([](SystemCall* call) {
    const bool opens =
        call->kind == CallKind::kOpenAt && std::string(call->name) == format::kReserveName;
    return opens ? Refuse(EMFILE) : call->Proceed();
  });
  for (const char* const why : {"descriptor", "removed", "linked"}) {
    Open();
    if (std::string(why) == "removed") std::filesystem::remove(Path());
    if (std::string(why) == "linked") std::filesystem::create_hard_link(Path(), other);
    {
      const ScopedHook scope(std::string(why) == "descriptor" ? &no_descriptor : nullptr);
      EXPECT_FALSE(reserve().GiveUp()) << why;
    }
    EXPECT_TRUE(reserve().is_given_up()) << why;
    EXPECT_TRUE(reserve().TakeBack()) << why;
    EXPECT_FALSE(reserve().is_given_up()) << why;
    EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes) << why;
  }
}

// statfs says nothing of a quota.
TEST_F(SpaceReserveTest, APartIsTakenBackWhereAQuotaRefusesTheWhole) {
  Open();
  for (uint64_t i = 0; i < kPieces; ++i) ASSERT_TRUE(reserve().GiveUp());
  CallWatch quota([](SystemCall* call) {
    const bool refuses = Reserves(*call) && call->length > off_t{6 * SpaceReserve::kPieceBytes};
    return refuses ? Refuse(EDQUOT) : call->Proceed();
  });
  const ScopedHook scope(&quota);
  EXPECT_FALSE(reserve().TakeBack());
  EXPECT_GE(AllocatedBytes(), SpaceReserve::kLeftByValues);
  EXPECT_TRUE(MayLogValues());
  EXPECT_TRUE(reserve().is_given_up());
}

// Two threads that find the disk full at once need no more than one of them.
TEST_F(SpaceReserveTest, APieceThatAnotherThreadGaveUpIsTriedFirst) {
  Open();
  uint64_t tries = 0;
  const auto write = [&] {
    if (++tries == 2) return Status::Ok();
    EXPECT_TRUE(reserve().GiveUp()) << "as another thread would";
    return Status::Full("no space");
  };
  EXPECT_TRUE(reserve().Write(write).ok());
  EXPECT_EQ(AllocatedBytes(), SpaceReserve::kBytes - SpaceReserve::kPieceBytes);
}

// The attempt would take from deletions for a moment what they were given.
TEST_F(SpaceReserveTest, IsNotAskedForWhereThereIsTooLittle) {
  Open();
  ASSERT_TRUE(reserve().GiveUp());
  constexpr uint64_t kForRootBytes = uint64_t{1} << 30;
  uint64_t free_bytes = 2 * SpaceReserve::kPieceBytes - 1;
  CallWatch watch([&](SystemCall* call) {
    EXPECT_FALSE(free_bytes < 2 * SpaceReserve::kPieceBytes && Reserves(*call));
    const long result = call->Proceed();
    if (call->kind == CallKind::kFstatFs && result == 0) {
      auto* const info = static_cast<struct statfs*>(call->buffer);
      info->f_bsize = 1;
      info->f_bavail = free_bytes;
      info->f_bfree = free_bytes + kForRootBytes;
    }
    return result;
  });
  const ScopedHook scope(&watch);
  EXPECT_FALSE(reserve().TakeBack());
  EXPECT_TRUE(reserve().is_given_up());
  free_bytes = 2 * SpaceReserve::kPieceBytes;
  EXPECT_TRUE(reserve().TakeBack());
  EXPECT_FALSE(reserve().is_given_up());
  // New values wait for the whole reserve; values of groups may use a part.
  for (uint64_t i = 0; i < kPieces; ++i) ASSERT_TRUE(reserve().GiveUp());
  free_bytes = 5 * SpaceReserve::kPieceBytes - 1;
  EXPECT_FALSE(reserve().TakeBack());
  EXPECT_TRUE(reserve().is_given_up());
  EXPECT_EQ(AllocatedBytes(), 3 * SpaceReserve::kPieceBytes);
  EXPECT_TRUE(MayLogValues());
}

// There may be room for writes, and no descriptor or no permission for the reserve. It is asked for
// again later.
TEST_F(SpaceReserveTest, WritesGoOnWhereItCannotBeTakenBack) {
  Open();
  for (const int error : {EMFILE, EACCES, EIO}) {
    ASSERT_TRUE(reserve().GiveUp());
    ASSERT_TRUE(reserve().is_given_up());
    CallWatch refusal([error](SystemCall* call) {
      const bool opens =
          call->kind == CallKind::kOpenAt && std::string(call->name) == format::kReserveName;
      return opens ? Refuse(error) : call->Proceed();
    });
    {
      const ScopedHook scope(&refusal);
      EXPECT_TRUE(reserve().TakeBack()) << error;
    }
    EXPECT_FALSE(reserve().is_given_up()) << error;
    EXPECT_LT(AllocatedBytes(), SpaceReserve::kBytes);
    EXPECT_TRUE(reserve().TakeBack());
    EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes);
  }
}

// What would not come back when the file is cut off.
TEST_F(SpaceReserveTest, AFileThatIsNotTheStoresAloneIsReplaced) {
  Open();
  const std::string other = dir_.Join("other");
  for (const bool is_linked : {true, false}) {
    log_.reset();
    std::filesystem::remove(other);
    if (is_linked) {
      std::filesystem::create_hard_link(Path(), other);
    } else {
      std::filesystem::resize_file(Path(), 2 * SpaceReserve::kBytes);
    }
    Open();
    EXPECT_EQ(std::filesystem::file_size(Path()), SpaceReserve::kBytes);
    EXPECT_EQ(std::filesystem::hard_link_count(Path()), 1u);
    EXPECT_GE(AllocatedBytes(), SpaceReserve::kBytes);
    ASSERT_TRUE(reserve().GiveUp());
    if (is_linked) {
      EXPECT_EQ(std::filesystem::file_size(other), SpaceReserve::kBytes);
    }
    EXPECT_TRUE(reserve().TakeBack());
  }
}

// Some file systems need space to split an extent.
TEST_F(SpaceReserveTest, TombstonesAreWrittenAsZerosWhereNoHoleCanBeMade) {
  Open();
  ASSERT_TRUE(reserve().GiveUp());
  uint64_t refused_count = 0;
  CallWatch full([&](SystemCall* call) {
    const bool punches =
        call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0;
    if (!punches) return call->Proceed();
    ++refused_count;
    return Refuse(ENOSPC);
  });
  const ScopedHook scope(&full);
  const uint64_t count = 2 * log_->geometry().values_per_group();
  for (uint64_t key = 0; key < count; ++key) ASSERT_TRUE(log_->Append(key, nullptr).ok());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_EQ(refused_count, 2u) << "one a group";
  EXPECT_EQ(RecordsOf(log_.get(), 0).size(), count);
}

// A write into it would need space.
TEST_F(SpaceReserveTest, AHoleThatWasMadeStaysWhereTheNextCannotBe) {
  Open();
  ASSERT_TRUE(reserve().GiveUp());
  const uint64_t group = log_->geometry().values_per_group();
  ASSERT_GT(group, 2u);
  uint64_t punch_count = 0;
  uint64_t written_count = 0;
  off_t hole_offset = -1;
  CallWatch full([&](SystemCall* call) {
    const bool of_values = call->fd >= 0 && PathOfFd(call->fd).find("/value_") != std::string::npos;
    if (of_values && call->kind == CallKind::kPwrite) {
      EXPECT_EQ(call->offset, hole_offset + static_cast<off_t>(kValueBytes));
      written_count += call->size / kValueBytes;
    }
    const bool punches =
        call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0;
    if (!of_values || !punches) return call->Proceed();
    if (punch_count++ != 0) return Refuse(ENOSPC);
    hole_offset = call->offset;
    return call->Proceed();
  });
  const ScopedHook scope(&full);
  for (uint64_t key = 0; key < group; ++key) ASSERT_TRUE(log_->Append(key, nullptr).ok());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_EQ(punch_count, 2u);
  EXPECT_EQ(written_count, group - 1);
  EXPECT_EQ(RecordsOf(log_.get(), 0).size(), group);
}

// Every refused value would ask again.
TEST_F(SpaceReserveTest, ADiskThatHasRefusedIsAskedAgainAfterARelease) {
  Open();
  ASSERT_TRUE(reserve().GiveUp());
  constexpr uint64_t kTries = 100;
  uint64_t asked_count = 0;
  CallWatch full([&](SystemCall* call) {
    if (!Reserves(*call)) return call->Proceed();
    ++asked_count;
    return Refuse(ENOSPC);
  });
  const ScopedHook scope(&full);
  for (uint64_t i = 0; i < kTries; ++i) EXPECT_FALSE(reserve().TakeBack());
  EXPECT_LT(asked_count, kTries / 2) << "once a second";
  asked_count = 0;
  for (uint64_t i = 0; i < kTries; ++i) EXPECT_FALSE(reserve().TakeBack(/*has_released=*/true));
  EXPECT_EQ(asked_count, kTries);
}

TEST_F(SpaceReserveTest, WithoutRoomItStaysGivenUp) {
  Open();
  ASSERT_TRUE(reserve().GiveUp());
  CallWatch full(
      [](SystemCall* call) { return Reserves(*call) ? Refuse(ENOSPC) : call->Proceed(); });
  {
    const ScopedHook scope(&full);
    EXPECT_FALSE(reserve().TakeBack());
  }
  EXPECT_TRUE(reserve().is_given_up());
  EXPECT_EQ(AllocatedBytes(), SpaceReserve::kBytes - SpaceReserve::kPieceBytes);
  CallWatch quota(
      [](SystemCall* call) { return Reserves(*call) ? Refuse(EDQUOT) : call->Proceed(); });
  {
    const ScopedHook scope(&quota);
    EXPECT_FALSE(reserve().TakeBack(/*has_released=*/true));
  }
  EXPECT_TRUE(reserve().TakeBack(/*has_released=*/true));
}

}  // namespace
}  // namespace engine_race::test
