// Counts and rows that an opening has found may be in the page cache alone. Each call that frees
// slots, gives them out again or punches them out has them flushed first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include "test/log/log_parts_test_util.h"
#include "test/log/row_mover_fixture.h"

namespace engine_race::test {
namespace {

class FoundRowsTest : public RowMoverTest {
 protected:
  void Reopen() {
    ASSERT_TRUE(log_->Sync().ok());
    log_.reset();
    log_ = OpenLog(TinyLogOptions(), dir_.path());
    ASSERT_NE(log_, nullptr);
  }
  // The first call after an opening. Expects flushes of the counts and then of the rows, before
  // it writes rows or punches out values.
  void ExpectFlushesFirst(const std::function<void()>& call, bool changes = true) {
    ChangeOrder order;
    {
      const ScopedHook hook(&order);
      call();
    }
    size_t changed = order.changes.size();
    for (const char* change : {"write key_rows", "write value_00", "write value_01"}) {
      changed = std::min(changed, order.First(change));
    }
    EXPECT_EQ(changed < order.changes.size(), changes);
    const auto end = order.changes.begin() + static_cast<ptrdiff_t>(changed);
    const auto counts = std::find(order.changes.begin(), end, "flush staging_counts");
    EXPECT_NE(counts, end) << "the counts are not flushed before";
    EXPECT_NE(std::find(counts, end, "flush key_rows"), end) << "the rows are not flushed before";
  }
};

TEST_F(FoundRowsTest, AreFlushedBeforeTheTailTakesOne) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  Reopen();
  ExpectFlushesFirst([&] { EXPECT_TRUE(log_->Append(1, ValueOf(1, 2).data()).ok()); });
}

TEST_F(FoundRowsTest, AreFlushedBeforeAMoverTakesOne) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  Reopen();
  ASSERT_TRUE(log_->mover().Claim(0));
  uint32_t row = 0;
  ExpectFlushesFirst([&] { EXPECT_TRUE(log_->mover().TakeRow(0, 0, &row).ok()); },
                     /*changes=*/false);
  log_->mover().ReturnRow(0, row);
  log_->mover().Unclaim(0);
}

TEST_F(FoundRowsTest, AreFlushedBeforeMovesAreSettled) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  Reopen();
  ExpectFlushesFirst([&] { EXPECT_TRUE(log_->mover().Settle().ok()); });
}

TEST_F(FoundRowsTest, AreFlushedBeforeLeftoversArePunchedOut) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  Reopen();
  ExpectFlushesFirst([&] { log_->mover().ReleaseLeftovers(0); });
}

TEST_F(FoundRowsTest, AreFlushedBeforeGapsArePunchedOut) {
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), 0, /*row=*/1, SlotBits::First(10)));
  Reopen();
  ExpectFlushesFirst([&] { log_->mover().PunchGaps(0); });
}

TEST_F(FoundRowsTest, AreFlushedByASyncThatHasNothingElseToDo) {
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), 0, /*row=*/1, SlotBits::First(10)));
  Reopen();
  ExpectFlushesFirst([&] { EXPECT_TRUE(log_->Sync().ok()); }, /*changes=*/false);
}

}  // namespace
}  // namespace engine_race::test
