// An index on disk over a row that was filled again and damaged: an opening finds it of no use.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "test/reclaim/covered_rows_fixture.h"

namespace engine_race::test {
namespace {

class DamagedRowsTest : public CoveredRowsTest {};

INSTANTIATE_TEST_SUITE_P(Forms, DamagedRowsTest, testing::Values(Form::kFlat, Form::kPaged),
                         NameOf);

// The records that stayed in a row that was filled again are told by their entries.
TEST_P(DamagedRowsTest, ADamagedEntryOfARecordThatStayedIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  const uint64_t row_records = log_->geometry().row_records();
  // Half of the first row is dead.
  for (uint64_t key = 0; key < row_records; key += 2) ASSERT_NO_FATAL_FAILURE(Put(key));
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, row_records));
  ASSERT_TRUE(log_->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(Clean(/*settle=*/true, /*dead_percent=*/50));
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, 2 * row_records));
  constexpr uint64_t kStayed = 1;  // a slot, and the key in it
  ASSERT_GT(Table().rows()[0].number, 0U) << "filled again";
  ASSERT_TRUE(Table().rows()[0].kept().Has(kStayed));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectCovered();
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  const uint64_t offset = log_->slots().LocateKeys(0, kStayed).offset;
  const uint64_t other_key = kStayed ^ 64;
  Close();
  Overwrite(dir_.Join("key_00"), &other_key, sizeof(other_key),
            offset + offsetof(format::KeyEntry, key));
  Open();
  EXPECT_TRUE(messages_.Said(kNotCovered));
  for (const auto& [key, version] : held_) {
    ValueRef ref;
    const Status found = index_->Find(key, &ref);
    if (found.code() == Code::kCorruption) continue;
    ASSERT_TRUE(found.ok()) << "key " << key << ": " << found.ToString();
    ASSERT_EQ(ReadSlot(*log_, 0, ref.slot()), ValueOf(key, version)) << key;
  }
}

}  // namespace
}  // namespace engine_race::test
