#include "harness/experiments/io/pages.h"

#include <gtest/gtest.h>

namespace harness {
namespace {

TEST(IoPagesTest, AnUpdateWritesWholePages) {
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 512), 1);
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 4096), 1);
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 8192), 2);
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 65536), 16);
  // The paper's figures: 100 bytes cost 40 times as much in pages of 4 KiB, 160 times in 16 KiB.
  EXPECT_DOUBLE_EQ(WriteAmplification(100, 4096), 40.96);
  EXPECT_DOUBLE_EQ(WriteAmplification(100, 16384), 163.84);
  EXPECT_DOUBLE_EQ(WriteAmplification(100, 512), 5.12);
}

TEST(IoPagesTest, PartOfAPageIsAPage) {
  EXPECT_EQ(PagesTouched(1, 512), 1u);
  EXPECT_EQ(PagesTouched(512, 512), 1u);
  EXPECT_EQ(PagesTouched(513, 512), 2u);
  EXPECT_EQ(PagesTouched(4096, 512), 8u);
  EXPECT_DOUBLE_EQ(WriteAmplification(600, 512), 1024.0 / 600);
}

}  // namespace
}  // namespace harness
