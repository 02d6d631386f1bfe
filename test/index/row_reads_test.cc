// Reads of rows that lie apart in a key log: all at once, with the same result as one by one.
#include "engine_race/index/row_reads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/bucket_log.h"
#include "test/faults/system_calls.h"
#include "test/index/key_reads.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kBucket = 1;
constexpr uint32_t kRowSlots = format::kPageEntries;
constexpr uint32_t kRows = 30;

// Counts reads of key logs that are waited for one by one, and calls that submit reads. Fails the
// submitted reads of libaio while it is told to.
class CountedReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kIoSubmit || call->kind == CallKind::kUringEnter) ++submitted;
    if (ReadsKeyLog(*call)) ++waited;
    const long result = call->Proceed();
    if (call->kind == CallKind::kIoGetEvents && fails) {
      for (long i = 0; i < result; ++i) call->events[i].res = -EIO;
    }
    return result;
  }
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> waited{0};
  std::atomic<bool> fails{false};
};

class RowReadsTest : public testing::Test {
 protected:
  void SetUp() override {
    log_ = OpenLog(TinyLogOptions(), dir_.path());
    ASSERT_NE(log_, nullptr);
    Region page;
    ASSERT_TRUE(
        Region::Allocate(kRowSlots * format::kKeyEntryBytes, /*huge_pages=*/false, &page).ok());
    // Every other row is written: its entries have its number.
    for (uint32_t row = 0; row < kRows; row += 2) {
      auto* const entries = reinterpret_cast<format::KeyEntry*>(page.data());
      for (uint32_t i = 0; i < kRowSlots; ++i) entries[i].check = row + 1;
      ASSERT_TRUE(
          log_->slots().WriteKeys(kBucket, uint64_t{row} * kRowSlots, kRowSlots, entries).ok());
    }
  }
  void Read(RowReads* reads, const std::vector<uint32_t>& rows) {
    ASSERT_TRUE(reads->Read(log_->slots(), kBucket, kRowSlots, rows).ok());
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t check = rows[i] % 2 == 0 && rows[i] < kRows ? rows[i] + 1 : 0;
      EXPECT_EQ(reads->RowAt(i)[0].check, check) << rows[i];
      EXPECT_EQ(reads->RowAt(i)[kRowSlots - 1].check, check) << rows[i];
    }
  }

  const TempDir dir_;
  std::unique_ptr<BucketLog> log_;
  io::FailedBackends failed_{LogFn()};
  CountedReads counts_;
  const ScopedHook hook_{&counts_};
};

TEST_F(RowReadsTest, RowsThatLieApartAreWaitedForOnce) {
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kLibaio}) {
    RowReads reads(backend, &failed_);
    counts_.submitted = counts_.waited = 0;
    ASSERT_NO_FATAL_FAILURE(Read(&reads, {0, 2, 6, 20, kRows - 2}));
    EXPECT_EQ(counts_.waited, 0u);
    EXPECT_GE(counts_.submitted, 1u);
    // Once more, into the same memory.
    ASSERT_NO_FATAL_FAILURE(Read(&reads, {1, 4, 8}));
    EXPECT_EQ(counts_.waited, 0u);
  }
}

TEST_F(RowReadsTest, NeighboursAreOneRead) {
  RowReads reads(IoBackend::kAuto, &failed_);
  counts_.submitted = counts_.waited = 0;
  ASSERT_NO_FATAL_FAILURE(Read(&reads, {4, 5}));
  EXPECT_EQ(counts_.waited, 1u);
  EXPECT_EQ(counts_.submitted, 0u);
}

TEST_F(RowReadsTest, WithPsyncRowsAreReadOneByOne) {
  RowReads reads(IoBackend::kPsync, &failed_);
  counts_.submitted = counts_.waited = 0;
  ASSERT_NO_FATAL_FAILURE(Read(&reads, {0, 2, 6}));
  EXPECT_EQ(counts_.waited, 3u);
  EXPECT_EQ(counts_.submitted, 0u);
}

// The last of these rows lies in a segment without one.
TEST_F(RowReadsTest, RowsWithoutAPlaceAreZeros) {
  RowReads reads(IoBackend::kAuto, &failed_);
  ASSERT_NO_FATAL_FAILURE(Read(&reads, {0, 2, kRows + 1}));
}

TEST_F(RowReadsTest, ReadsThatFailAreDoneAgain) {
  RowReads reads(IoBackend::kLibaio, &failed_);
  counts_.fails = true;
  counts_.waited = 0;
  ASSERT_NO_FATAL_FAILURE(Read(&reads, {0, 2, 6}));
  EXPECT_GE(counts_.waited, 3u);
}

TEST_F(RowReadsTest, AReadThatFailsTwiceIsAFailure) {
  KeyReads failing;
  failing.fails = true;
  const ScopedHook hook(&failing);
  RowReads reads(IoBackend::kPsync, &failed_);
  const std::vector<uint32_t> rows = {0, 2};
  EXPECT_EQ(reads.Read(log_->slots(), kBucket, kRowSlots, rows).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::test
