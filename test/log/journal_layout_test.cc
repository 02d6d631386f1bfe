#include "engine_race/log/journal_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "test/test_util.h"

namespace engine_race::test {
namespace {

TEST(JournalLayoutTest, ABatchIsABlockAndTheWholeBlocksOfItsValues) {
  EXPECT_EQ(JournalLayout(8).BatchBytes(0), 4096u);
  EXPECT_EQ(JournalLayout(8).BatchBytes(1), 2 * 4096u);
  EXPECT_EQ(JournalLayout(8).BatchBytes(512), 2 * 4096u);
  EXPECT_EQ(JournalLayout(8).BatchBytes(513), 3 * 4096u);
  EXPECT_EQ(JournalLayout(1536).BatchBytes(3), 3 * 4096u) << "4608 bytes of values";
  EXPECT_EQ(JournalLayout(4096).BatchBytes(3), 4 * 4096u);
  EXPECT_EQ(JournalLayout(5000).BatchBytes(1), 3 * 4096u);
  EXPECT_EQ(JournalLayout(1 << 20).BatchBytes(1), 257 * 4096u);
}

TEST(JournalLayoutTest, ABatchHasOneMebibyteOfValuesOrOneValue) {
  EXPECT_EQ(JournalLayout(4096).MostRecords(1000), 256u);
  EXPECT_EQ(JournalLayout(4096).MostRecords(10), 10u);
  EXPECT_EQ(JournalLayout(8).MostRecords(60), 60u);
  EXPECT_EQ(JournalLayout(100'000).MostRecords(60), 10u);
  EXPECT_EQ(JournalLayout(1 << 20).MostRecords(60), 1u);
}

// Wherever the deletions lie among the records.
TEST(JournalLayoutTest, AChainTakesNoMoreThanItSays) {
  std::mt19937_64 random(1);
  for (const uint32_t value_bytes : kValueSizes) {
    const JournalLayout layout(value_bytes);
    for (int i = 0; i < 300; ++i) {
      const uint64_t record_count = 1 + random() % (i % 3 == 0 ? 20 : 2000);
      const uint64_t values_in_four = random() % 5;
      uint64_t value_count = 0;
      uint64_t bytes = 0;
      uint64_t length = 0;
      for (uint64_t first = 0; first < record_count; first += layout.chain_batch_records()) {
        const uint64_t batch_records =
            std::min<uint64_t>(layout.chain_batch_records(), record_count - first);
        uint64_t batch_values = 0;
        for (uint64_t j = 0; j < batch_records; ++j) batch_values += random() % 4 < values_in_four;
        value_count += batch_values;
        bytes += layout.BatchBytes(batch_values);
        ++length;
      }
      ASSERT_EQ(layout.ChainLength(record_count), length) << value_bytes;
      ASSERT_LE(bytes, layout.ChainBytes(record_count, value_count)) << value_bytes;
      // Two blocks too many for each batch at most.
      ASSERT_LE(layout.ChainBytes(record_count, value_count), bytes + length * 2 * 4096)
          << value_bytes;
      // A batch of single records is no longer than it must be.
      if (value_bytes % 4096 == 0 || length == 1) {
        ASSERT_EQ(bytes, layout.ChainBytes(record_count, value_count)) << value_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace engine_race::test
