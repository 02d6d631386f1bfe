// A power loss takes all records of a bucket. The root on disk still names extents of it, without a
// coverage.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine_race/index/index.h"
#include "test/index/paged_index_fixture.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kLost = 2;
// Of each bucket: enough that the index is written for it.
constexpr uint64_t kEmptiedRecords = 2600;

class EmptiedBucketTest : public PagedIndexFixture {
 protected:
  EmptiedBucketTest() : PagedIndexFixture(/*frame_count=*/8) { options_.bucket_count = 4; }

  void WriteAll(uint64_t first) {
    for (uint64_t i = 0; i < kEmptiedRecords; ++i) ASSERT_NO_FATAL_FAILURE(Write(first + i));
  }
  // Leaves a store in which all buckets but kLost are synced.
  void LoseABucket() {
    ASSERT_NO_FATAL_FAILURE(Open());
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      if (b == kLost) continue;
      ASSERT_NO_FATAL_FAILURE(WriteAll(log_->geometry().FirstKeyOf(b)));
    }
    ASSERT_TRUE(log_->Sync().ok());
    const auto kept = newest_;
    first_ = log_->geometry().FirstKeyOf(kLost);
    ASSERT_NO_FATAL_FAILURE(WriteAll(first_));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    const std::string key_log = dir_.Join(log_->slots().LocateKeys(kLost, 0).file->name());
    const uint64_t offset = log_->slots().LocateKeys(kLost, 0).offset;
    const uint64_t bytes = log_->slots().LocateKeys(kLost, kEmptiedRecords).offset - offset;
    const uint64_t store_id = log_->store_id();
    Close();
    LoseBytes(key_log, offset, bytes);
    LosePower(dir_.path(), store_id, options_.bucket_count);
    newest_ = kept;
  }
  void ExpectLost() {
    for (uint64_t i = 0; i < kEmptiedRecords; ++i) {
      ValueRef ref;
      ASSERT_EQ(index_->Find(first_ + i, &ref).code(), Code::kNotFound) << i;
    }
    ExpectFinds(1);
    ExpectWalks();
  }
  // Other keys take the slots of those that are lost.
  void FillAgain() {
    ASSERT_EQ(log_->RecordCount(kLost), 0U);
    ASSERT_NO_FATAL_FAILURE(WriteAll(first_ + kEmptiedRecords));
    if (index_->needs_restore_rest()) index_->RestoreRest();
    ASSERT_NO_FATAL_FAILURE(ExpectLost());
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Reopen();
    ASSERT_NO_FATAL_FAILURE(ExpectLost());
  }

  uint64_t first_ = 0;
};

TEST_F(EmptiedBucketTest, HasNoneOfItsExtents) {
  ASSERT_NO_FATAL_FAILURE(LoseABucket());
  ASSERT_NO_FATAL_FAILURE(Open());
  FillAgain();
}

TEST_F(EmptiedBucketTest, HasNoneOfItsExtentsWhereBucketsMayWait) {
  ASSERT_NO_FATAL_FAILURE(LoseABucket());
  ASSERT_NO_FATAL_FAILURE(Open(Index::Opening::kMayWait));
  FillAgain();
}

}  // namespace
}  // namespace engine_race::test
