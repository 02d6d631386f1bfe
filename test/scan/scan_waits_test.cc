#include "engine_race/scan/scan_waits.h"

#include <gtest/gtest.h>

#include <vector>

namespace engine_race::test {
namespace {

using Time = ScanWaits::Clock::time_point;

class ScanWaitsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLast = ~uint64_t{0};
  const Time now_ = Time() + std::chrono::hours(1);
  Scanner first_{10, kLast, 0};
  Scanner second_{20, kLast, 0};
  std::vector<Scanner*> scanners_ = {&first_, &second_};
  ScanWaits waits_;
};

TEST_F(ScanWaitsTest, ScansAreNumberedAsTheyBeginToWait) {
  waits_.Begin(&second_);
  waits_.Begin(&first_);
  EXPECT_TRUE(first_.waiting);
  EXPECT_LT(second_.wait_number, first_.wait_number);
  EXPECT_GT(second_.wait_number, 0u) << "0 is for a scan that does not wait";
}

TEST_F(ScanWaitsTest, PatienceEndsByTimeFromTheFirstRefusal) {
  waits_.Begin(&first_);
  EXPECT_EQ(waits_.NextInsistTime(scanners_), Time());
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, now_));
  EXPECT_EQ(waits_.NextInsistTime(scanners_), now_ + ScanWaits::kTime);
  const auto almost = now_ + ScanWaits::kTime - std::chrono::nanoseconds(1);
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, almost));
  EXPECT_TRUE(waits_.IsPatienceOver(scanners_, 10, now_ + ScanWaits::kTime));
}

TEST_F(ScanWaitsTest, PatienceEndsAfterSoManyChunks) {
  for (uint64_t i = 0; i < 5; ++i) waits_.CountLoad();
  waits_.Begin(&first_);
  for (uint64_t i = 1; i < ScanWaits::kChunks; ++i) waits_.CountLoad();
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, now_)) << "those before it do not count";
  waits_.CountLoad();
  EXPECT_TRUE(waits_.IsPatienceOver(scanners_, 10, now_));
}

TEST_F(ScanWaitsTest, OnlyScansThatWaitForTheKeyAreAsked) {
  waits_.Begin(&second_);
  for (uint64_t i = 0; i < ScanWaits::kChunks; ++i) waits_.CountLoad();
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, now_));
  EXPECT_TRUE(waits_.IsPatienceOver(scanners_, 20, now_));
}

TEST_F(ScanWaitsTest, AllThatWaitInsistTogetherAndTheOthersDoNot) {
  waits_.Begin(&first_);
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, now_));
  waits_.InsistAll(scanners_);
  EXPECT_TRUE(first_.insists);
  EXPECT_FALSE(second_.insists);
  EXPECT_EQ(waits_.NextInsistTime(scanners_), Time());
}

TEST_F(ScanWaitsTest, TheNextToInsistIsTheOneWhoseTimeEndsFirst) {
  waits_.Begin(&first_);
  waits_.Begin(&second_);
  const auto later = now_ + std::chrono::milliseconds(5);
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 20, later));
  EXPECT_FALSE(waits_.IsPatienceOver(scanners_, 10, now_));
  EXPECT_EQ(waits_.NextInsistTime(scanners_), now_ + ScanWaits::kTime);
  waits_.End(&first_);
  EXPECT_EQ(waits_.NextInsistTime(scanners_), later + ScanWaits::kTime);
}

TEST_F(ScanWaitsTest, TheLongestWaitIsKept) {
  waits_.Begin(&first_);
  for (uint64_t i = 0; i < 7; ++i) waits_.CountLoad();
  waits_.End(&first_);
  EXPECT_FALSE(first_.waiting);
  waits_.Begin(&first_);
  waits_.CountLoad();
  waits_.End(&first_);
  EXPECT_EQ(waits_.longest_wait_chunks(), 7u);
}

}  // namespace
}  // namespace engine_race::test
