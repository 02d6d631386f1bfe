// A log whose first bucket has three full rows, of which the records are moved.
#ifndef TEST_LOG_ROW_MOVER_FIXTURE_H_
#define TEST_LOG_ROW_MOVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "engine_race/log/row_file.h"
#include "engine_race/log/row_mover.h"
#include "test/log/log_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kRow = 256;

class RowMoverTest : public ::testing::Test {
 protected:
  RowMoverTest() : log_(OpenLog(TinyLogOptions(), dir_.path())) {
    for (uint64_t key = 0; key < 3 * kRow; ++key) {
      EXPECT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    }
  }

  void MoveFirstRow() { ASSERT_NO_FATAL_FAILURE(Move(0)); }
  void Move(uint32_t from_row) {
    ASSERT_NO_FATAL_FAILURE(MoveRow(log_.get(), /*bucket=*/0, from_row, &moved_row_));
  }
  // As the file has it.
  Row RowOnDisk(uint32_t row) {
    BucketRows found{.table = {}, .damaged = true};
    EXPECT_TRUE(ReadRows(log_->files(), 0, {&found, 1}).ok());
    EXPECT_FALSE(found.damaged);
    const std::vector<Row>& rows = found.table.rows();
    return row < rows.size() ? rows[row] : Row();
  }

  const TempDir dir_;
  std::unique_ptr<BucketLog> log_;
  uint32_t moved_row_ = 0;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_ROW_MOVER_FIXTURE_H_
