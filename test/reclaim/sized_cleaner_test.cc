// The cleaning of buckets whose values share blocks, or of which a row is more than is held at
// once.
#include "test/faults/call_watch.h"
#include "test/faults/system_calls.h"
#include "test/reclaim/cleaner_fixture.h"

namespace engine_race::test {
namespace {

Options SizedRows(uint32_t value_bytes) {
  Options options = Rows(64);
  options.value_bytes = value_bytes;
  return options;
}

// A row of the largest values has 10 MiB.
class SizedCleanerTest : public BucketCleanerTest, public testing::WithParamInterface<uint32_t> {
 protected:
  SizedCleanerTest() : BucketCleanerTest(SizedRows(GetParam())) {}

  uint64_t OffsetOf(uint64_t slot) const { return log_->slots().LocateValues(0, slot).offset; }
  // Three rows of which two have half of their records.
  void MakeSparseRows() {
    ASSERT_NO_FATAL_FAILURE(PutNew(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(KillEvery(kRow, 3 * kRow, 2));
    ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, SizedCleanerTest, testing::Values(8, 100, 1536, 40000),
                         testing::PrintToStringParamName());

TEST_P(SizedCleanerTest, RowsAreEmptiedAndFilledAgain) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(MakeSparseRows());
    ASSERT_NO_FATAL_FAILURE(Delete(5));
    const BucketUse use = Clean(0);
    if (round == 0) {
      EXPECT_GE(use.moved_count, kRow);
      EXPECT_EQ(log_->mover().moved_bytes(), use.moved_count * log_->geometry().slot_bytes());
    }
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    ASSERT_NO_FATAL_FAILURE(Settle());
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    next_key_ += kRow;
  }
}

TEST_P(SizedCleanerTest, ARowWithADamagedValueStays) {
  ASSERT_NO_FATAL_FAILURE(MakeSparseRows());
  constexpr uint64_t kDamaged = kRow + 101;
  Overwrite(dir_.Join("value_00"), "junk", 4, OffsetOf(kDamaged) + 3);
  const BucketUse use = Clean(0);
  EXPECT_GT(use.moved_count, 0u) << "of the other row";
  EXPECT_FALSE(GivenUp().contains(kDamaged));
  EXPECT_FALSE(GivenUp().contains(kDamaged + 2));
  EXPECT_TRUE(GivenUp().contains(kDamaged - 1)) << "dead";
  EXPECT_TRUE(GivenUp().contains(2 * kRow + 101)) << "moved";
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(Delete(kDamaged));
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
}

// A row that is moved by itself comes to lie as it does, and would be moved for ever.
TEST_P(SizedCleanerTest, SparseRowsAreJoinedByFewCleanings) {
  ASSERT_NO_FATAL_FAILURE(MakeSparseRows());
  BucketUse use = Clean(0);
  uint64_t moved_count = use.moved_count;
  for (int i = 0; i < 8 && use.has_more && use.moved_count > 0; ++i) {
    ASSERT_NO_FATAL_FAILURE(Settle());
    use = Clean(0);
    moved_count += use.moved_count;
  }
  EXPECT_FALSE(use.has_more && use.moved_count > 0);
  EXPECT_LE(moved_count, 2 * kRow);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// No more is in memory than a row, or 8 MiB.
TEST_P(SizedCleanerTest, LargeReadsAreBounded) {
  ASSERT_NO_FATAL_FAILURE(MakeSparseRows());
  size_t most_bytes = 0;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kPread && PathOf(*call).find("/value_") != std::string::npos) {
      most_bytes = std::max(most_bytes, call->size);
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    EXPECT_GE(Clean(0).moved_count, kRow);
  }
  const ValueLayout& layout = log_->geometry().layout;
  EXPECT_GT(most_bytes, 0u);
  EXPECT_LE(most_bytes, log_->geometry().row_bytes() <= 8 << 20
                            ? log_->geometry().row_bytes() + 2 * kIoAlignment
                            : uint64_t{layout.read_bytes()});
}

}  // namespace
}  // namespace engine_race::test
