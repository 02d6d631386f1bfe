#include "engine_race/l1/extent_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine_race/l1/key_block.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

using format::kIndexBlockRecords;
using l1::ExtentImage;
using l1::FenceBlock;
using l1::RecordBlock;

char* BlockAt(const ExtentImage& image, uint32_t number) {
  return image.data() + size_t{number} * format::kIndexBlockBytes;
}

void ExpectLaid(const ExtentImage& image, const std::vector<uint64_t>& keys) {
  const uint32_t blocks = (keys.size() + kIndexBlockRecords - 1) / kIndexBlockRecords;
  ASSERT_EQ(image.record_count(), keys.size());
  ASSERT_EQ(image.block_count(), blocks);
  ASSERT_EQ(image.size_bytes(), (blocks + 1) * 4096u);
  EXPECT_EQ(image.last_key(), keys.back());
  const FenceBlock fences(image.data());
  ASSERT_EQ(fences.block_count(), blocks);
  size_t next = 0;
  for (uint32_t number = 1; number <= blocks; ++number) {
    const RecordBlock block(BlockAt(image, number));
    ASSERT_EQ(block.count(), std::min<size_t>(kIndexBlockRecords, keys.size() - next));
    ASSERT_EQ(fences.first_keys()[number - 1], keys[next]);
    for (uint32_t i = 0; i < block.count(); ++i, ++next) {
      ASSERT_EQ(block.keys()[i], keys[next]);
      ASSERT_EQ(block.words()[i], WordBeside(keys[next]));
    }
  }
  EXPECT_EQ(next, keys.size());
}

TEST(ExtentImageTest, HoldsItsRecordsInFullBlocks) {
  ExtentImage image;
  ASSERT_TRUE(ExtentImage::Create(&image).ok());
  for (const size_t count : {size_t{1}, size_t{254}, size_t{255}, size_t{256}, size_t{5000},
                             size_t{format::kIndexExtentRecords}}) {
    SCOPED_TRACE(count);
    const std::vector<uint64_t> keys = EvenKeys(17, 3, count);
    Lay(keys, &image);
    ExpectLaid(image, keys);
  }
}

TEST(ExtentImageTest, TakesRecordsInPiecesOfAnySize) {
  ExtentImage image;
  ASSERT_TRUE(ExtentImage::Create(&image).ok());
  const std::vector<uint64_t> keys = EvenKeys(0, 7, 3000);
  const std::vector<uint64_t> words = WordsBeside(keys);
  for (const size_t piece : {1, 2, 100, 254, 255, 256, 700}) {
    SCOPED_TRACE(piece);
    image.Begin();
    for (size_t begin = 0; begin < keys.size(); begin += piece) {
      image.Append(keys.data() + begin, words.data() + begin, std::min(piece, keys.size() - begin));
      image.Append(nullptr, nullptr, 0);
      ASSERT_EQ(image.last_key(), keys[image.record_count() - 1]);
    }
    image.Finish();
    ExpectLaid(image, keys);
  }
}

// So that the bytes of an extent depend on its records alone.
TEST(ExtentImageTest, AnEarlierImageLeavesNothingBehind) {
  ExtentImage used;
  ExtentImage fresh;
  ASSERT_TRUE(ExtentImage::Create(&used).ok());
  ASSERT_TRUE(ExtentImage::Create(&fresh).ok());
  Lay(EvenKeys(uint64_t{1} << 63, 1, 4000), &used);
  const std::vector<uint64_t> keys = EvenKeys(5, 11, 300);
  Lay(keys, &used);
  Lay(keys, &fresh);
  EXPECT_EQ(std::memcmp(used.data(), fresh.data(), fresh.size_bytes()), 0);
}

}  // namespace
}  // namespace engine_race::test
