// Extents that cannot be written or read for a while: how long an index waits, what it takes in
// memory meanwhile, and that it is paged again.
#include "engine_race/index/paging_faults.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/index/bucket_index.h"
#include "test/eventually.h"
#include "test/faults/system_calls.h"
#include "test/index/fail_index_calls.h"
#include "test/index/paged_index_fixture.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

using std::chrono::milliseconds;

TEST(PagingFaultsTest, FailuresInARowBackOff) {
  EXPECT_EQ(PagingFaults::PauseAfter(0), milliseconds(0));
  EXPECT_EQ(PagingFaults::PauseAfter(1), milliseconds(1));
  EXPECT_EQ(PagingFaults::PauseAfter(4), milliseconds(8));
  EXPECT_EQ(PagingFaults::PauseAfter(100), milliseconds(1024));
  EXPECT_EQ(PagingFaults::RestAfter(PagingFaults::kFreeLosses), milliseconds(0));
  EXPECT_EQ(PagingFaults::RestAfter(3), 2 * PagingFaults::RestAfter(2));
  EXPECT_LT(PagingFaults::RestAfter(100), std::chrono::minutes(2));
}

TEST(PagingFaultsTest, AWriteThatSucceedsEndsThePause) {
  PagingFaults faults;
  EXPECT_FALSE(faults.is_pausing());
  for (int i = 0; i < 20; ++i) faults.NoteWrite(Status::Full("no room"));
  EXPECT_TRUE(faults.is_pausing());
  EXPECT_EQ(faults.TakeFailure().code(), Code::kFull);
  EXPECT_TRUE(faults.TakeFailure().ok()) << "given twice";
  EXPECT_TRUE(faults.MayTell());
  EXPECT_FALSE(faults.MayTell());
  faults.NoteWrite(Status::Ok());
  EXPECT_FALSE(faults.has_failed());
  EXPECT_FALSE(faults.is_pausing());
  EXPECT_TRUE(faults.MayTell());
  faults.NoteWrite(Status::OutOfMemory("not the files' fault"));
  EXPECT_FALSE(faults.has_failed());
}

TEST(PagingFaultsTest, ABucketRestsOnceItIsLostAgain) {
  PagingFaults faults;
  BucketIndex bucket;
  EXPECT_FALSE(faults.NoteLoss(&bucket));
  EXPECT_TRUE(faults.NoteLoss(&bucket));
  EXPECT_FALSE(faults.next_rested()) << "it is not built yet";
  faults.BeginRest(&bucket);
  ASSERT_TRUE(faults.next_rested());
  EXPECT_TRUE(Eventually([&] { return !faults.TakeRested().empty(); }));
  EXPECT_FALSE(faults.next_rested());
}

class FailingExtentsTest : public PagedIndexFixture {
 protected:
  static constexpr uint64_t kKeys = 20000;
  // What a merge may leave in memory for each key, deltas included.
  static constexpr uint64_t kFlatBytes = 20;

  FailingExtentsTest() : PagedIndexFixture(/*frame_count=*/8) {
    options_.bucket_count = 1;
    options_.file_count = 1;
  }
};

TEST_F(FailingExtentsTest, MergesGoOnInMemory) {
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  const uint64_t paged_bytes = index_->memory_bytes();
  std::mt19937_64 random(1);
  FailIndexCalls refuse(CallKind::kPwrite, ENOSPC);
  {
    const ScopedHook hook(&refuse);
    // So many that a delta of all of them has just doubled.
    for (int i = 0; i < 36000; ++i) ASSERT_NO_FATAL_FAILURE(Write(random()));
    ASSERT_TRUE(Eventually([&] { return messages_.Said("work on the index on disk failed"); }));
    // A delta takes 24 bytes a record, and as much again where it has grown.
    EXPECT_TRUE(Eventually(
        [&] { return index_->memory_bytes() < paged_bytes + newest_.size() * kFlatBytes; }));
    ExpectFinds(7);
    ExpectWalks();
    EXPECT_GT(refuse.count, 0);
    // As many as failures pause for, and not one for each merge.
    EXPECT_LT(refuse.count, 100);
    refuse.is_failing = false;
    EXPECT_TRUE(Eventually([&] { return index_->memory_bytes() < paged_bytes + kKeys; }))
        << "it was not paged again";
  }
  EXPECT_EQ(index_->memory_bytes(), index_->WalkMemoryBytes());
  ExpectFinds(7);
  ExpectWalks();
}

TEST_F(FailingExtentsTest, PutsAreRefusedAtTheLimitAndDeletionsAreNot) {
  std::atomic<uint64_t> limit{~uint64_t{0}};
  limit_ = [&] { return limit.load(); };
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  std::mt19937_64 random(1);
  FailIndexCalls refuse(CallKind::kPwrite, EIO);
  {
    const ScopedHook hook(&refuse);
    ASSERT_NO_FATAL_FAILURE(Churn(kKeys, &random));
    limit = index_->memory_bytes() / 2;
    const std::string value = ValueOf(7, 0);
    const uint64_t record_count = log_->RecordCount(0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(log_->Append(7, value.data()).code(), Code::kFull);
    }
    EXPECT_EQ(log_->RecordCount(0), record_count);
    EXPECT_TRUE(messages_.Said("writes are refused"));
    ASSERT_NO_FATAL_FAILURE(Write(newest_.begin()->first, /*tombstone=*/true));
    ExpectFinds(7);
    refuse.is_failing = false;
    EXPECT_TRUE(Eventually([&] { return log_->Append(7, value.data()).ok(); }));
  }
}

TEST_F(FailingExtentsTest, ABucketThatIsLostAgainRestsAndIsPagedAgain) {
  options_.bucket_count = 8;
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  const uint64_t paged_bytes = index_->memory_bytes();
  for (int i = 0; i < 2; ++i) {
    FailIndexCalls refuse(CallKind::kPread, EIO);
    {
      const ScopedHook hook(&refuse);
      ExpectFinds(97);
      EXPECT_GT(refuse.count, 0);
    }
    EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
    EXPECT_TRUE(Eventually([&] { return index_->memory_bytes() < paged_bytes + kKeys; }))
        << "it was not paged again";
  }
  EXPECT_EQ(index_->memory_bytes(), index_->WalkMemoryBytes());
  ExpectFinds(7);
}

// A read at the view may have found such a slot just before.
TEST_F(FailingExtentsTest, SlotsThatAViewShowsAreNotReleasedWhileTheirBucketIsLost) {
  std::atomic<int> lost_count{0};
  std::atomic<uint64_t> released_bytes{0};
  // The index says so between the loss and the build.
  options_.log = [&](LogLevel, std::string_view message) {
    if (message.find("it is built again") == std::string_view::npos) return;
    log_->mover().Release();
    released_bytes = log_->mover().released_bytes();
    ++lost_count;
  };
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const uint32_t row_records = log_->geometry().row_records();
  ASSERT_NO_FATAL_FAILURE(
      GiveUpSlots(log_.get(), /*bucket=*/0, /*row=*/0, SlotBits::First(row_records)));
  {
    FailIndexCalls refuse(CallKind::kPread, EIO);
    const ScopedHook hook(&refuse);
    ValueRef ref;
    for (auto at = newest_.begin(); lost_count == 0 && at != newest_.end(); ++at) {
      ASSERT_NE(index_->Find(at->first, &ref).code(), Code::kIOError);
    }
  }
  EXPECT_GT(lost_count, 0);
  EXPECT_EQ(released_bytes, 0U);
  ViewRegistry::Release(&view);
  log_->mover().Release();
  EXPECT_GT(log_->mover().released_bytes(), 0U);
  Close();
}

// Calls written() for each extent that is written.
class WrittenExtents final : public SystemCallHook {
 public:
  explicit WrittenExtents(std::function<void()> written) : written_(std::move(written)) {}
  long OnCall(SystemCall* call) override {
    const bool is_extent =
        call->kind == CallKind::kPwrite && PathOf(*call).find("/key_index_") != std::string::npos;
    if (is_extent) written_();
    return call->Proceed();
  }

 private:
  const std::function<void()> written_;
};

class IdleIndexTest : public PagedIndexFixture {
 protected:
  IdleIndexTest() : PagedIndexFixture(/*frame_count=*/0) {
    options_.index_memory_bytes = kAutoBytes;
    options_.index_idle_ms = 1;
  }
};

TEST_F(IdleIndexTest, ASaveEndsWhenReadersReturn) {
  std::atomic<uint64_t> read_count{0};
  std::atomic<uint64_t> look_count{0};
  std::atomic<bool> is_read{false};
  reads_ = [&] {
    ++look_count;
    return is_read ? read_count += 1000 : read_count.load();
  };
  std::atomic<int> written_count{0};
  WrittenExtents written([&] {
    ++written_count;
    is_read = true;
  });
  const ScopedHook hook(&written);
  ASSERT_NO_FATAL_FAILURE(Fill(20000));
  ASSERT_TRUE(Eventually([&] { return is_read.load(); }));
  const uint64_t looks_before = look_count;
  ASSERT_TRUE(Eventually([&] { return look_count >= looks_before + 20; }));
  EXPECT_EQ(written_count, 1) << "the save went on beside reads";
  is_read = false;
  EXPECT_TRUE(Eventually([&] { return written_count >= 2; }));
  Close();
}

}  // namespace
}  // namespace engine_race::test
