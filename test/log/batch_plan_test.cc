#include "engine_race/log/batch_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

// Records of one bucket with random keys, each of which comes a few times. The values tell them
// apart: that of record i is at[i].
std::vector<WriteBatch::Record> RandomRecords(uint32_t bucket, uint32_t count, const char* at) {
  std::mt19937_64 random(count);
  std::vector<WriteBatch::Record> records(count);
  for (uint32_t i = 0; i < count; ++i) {
    records[i].key = KeyIn(bucket, random() % (count / 3));
    records[i].value = at + i;
  }
  return records;
}

TEST(BatchPlanTest, ManyRecordsOfABucketComeInOrderOfKey) {
  constexpr uint32_t kFew = BatchPlan::kMaxUnsortedRecords;
  constexpr uint32_t kMany = BatchPlan::kMaxUnsortedRecords + 1;
  const std::vector<char> values(kFew + kMany);
  TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  std::vector<WriteBatch::Record> records = RandomRecords(3, kMany, values.data());
  const std::vector<WriteBatch::Record> few = RandomRecords(1, kFew, values.data() + kMany);
  records.insert(records.end(), few.begin(), few.end());
  BatchPlan plan;
  plan.Fill(log->geometry(), records);
  ASSERT_EQ(plan.parts().size(), 2U);
  EXPECT_EQ(plan.parts()[0].size(), kFew);
  EXPECT_EQ(plan.parts()[1].size(), kMany);
  for (uint32_t i = 0; i < kFew; ++i) {
    ASSERT_EQ(plan.record(i).key, few[i].key) << i;
    ASSERT_EQ(plan.record(i).value, few[i].value) << i;
  }
  std::vector<bool> is_there(kMany);
  for (uint32_t i = kFew; i < kFew + kMany; ++i) {
    const WriteBatch::Record& record = plan.record(i);
    is_there[static_cast<size_t>(record.value - values.data())] = true;
    if (i == kFew) continue;
    const WriteBatch::Record& before = plan.record(i - 1);
    ASSERT_LE(before.key, record.key) << i;
    // The later entry of a key wins.
    ASSERT_TRUE(before.key != record.key || before.value < record.value) << i;
  }
  EXPECT_EQ(is_there, std::vector<bool>(kMany, true));
}

}  // namespace
}  // namespace engine_race::test
