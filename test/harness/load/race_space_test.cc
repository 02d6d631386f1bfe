#include "harness/load/race_space.h"

#include <gtest/gtest.h>

#include "harness/load/store_basics.h"

namespace harness {
namespace {

TEST(RaceSpaceTest, CountsWhatThePhasesWrite) {
  EXPECT_EQ(RaceBytes(1000, false, false), 0u);
  EXPECT_EQ(RaceBytes(1000, true, false), StoreBytes(1000));
  EXPECT_EQ(RaceBytes(1000, false, true), 1000u * 4096);
  EXPECT_EQ(RaceBytes(1000, true, true), StoreBytes(1000) + 1000 * 4096);
  // With the most records and threads the sum is still a sum.
  EXPECT_GT(RaceBytes(4096 * kMaxRecordsPerThread, true, true),
            RaceBytes(4096 * kMaxRecordsPerThread, true, false));
}

}  // namespace
}  // namespace harness
