#include "harness/data/value_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace engine_race::harness {
namespace {

constexpr uint64_t kKey = 0x0123456789abcdef;

std::string ValueOf(const ValueMaker& maker, uint64_t key, uint64_t version) {
  std::string value(maker.value_bytes(), '\0');
  maker.Fill(key, version, value.data());
  return value;
}

TEST(ValueMakerTest, AcceptsWhatItMadeAndTellsTheVersion) {
  const ValueMaker maker(1);
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, kKey, ~uint64_t{0}}) {
    for (const uint64_t version : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, ~uint64_t{0}}) {
      const std::string value = ValueOf(maker, key, version);
      uint64_t found = version + 1;
      EXPECT_TRUE(maker.CheckAll(key, value.data(), &found));
      EXPECT_EQ(found, version);
      found = version + 1;
      EXPECT_TRUE(maker.CheckEnds(key, value.data(), &found));
      EXPECT_EQ(found, version);
    }
  }
}

TEST(ValueMakerTest, EveryFlippedBitIsFound) {
  const ValueMaker maker(1);
  std::string value = ValueOf(maker, kKey, 7);
  uint64_t version = 0;
  for (size_t i = 0; i < kValueSize; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      value[i] = static_cast<char>(value[i] ^ (1 << bit));
      ASSERT_FALSE(maker.CheckAll(kKey, value.data(), &version)) << i << " " << bit;
      const bool is_end = i < 16 || i >= kValueSize - 8;
      ASSERT_EQ(maker.CheckEnds(kKey, value.data(), &version), !is_end) << i << " " << bit;
      value[i] = static_cast<char>(value[i] ^ (1 << bit));
    }
  }
}

TEST(ValueMakerTest, EverySizeIsFilledAndLookedAtToItsEnd) {
  for (const uint32_t bytes : {8, 9, 15, 16, 17, 63, 64, 65, 100, 512, 1536, 16384, 1048576}) {
    const ValueMaker maker(1, bytes);
    constexpr char kBehind = 0x5a;
    std::string value(bytes + 1, kBehind);
    maker.Fill(kKey, 7, value.data());
    EXPECT_EQ(value[bytes], kBehind) << bytes;
    uint64_t version = 0;
    ASSERT_TRUE(maker.CheckAll(kKey, value.data(), &version)) << bytes;
    EXPECT_EQ(version, 7u);
    ASSERT_TRUE(maker.CheckEnds(kKey, value.data(), &version)) << bytes;
    EXPECT_EQ(version, 7u);
    // The bytes that a value shares with a longer one are the same, so that none are left out.
    EXPECT_EQ(value.substr(0, bytes), ValueOf(ValueMaker(1, bytes + 64), kKey, 7).substr(0, bytes));
    const uint32_t step = bytes > 4096 ? 997 : 1;
    for (uint32_t i = 0; i < bytes; i += std::min(step, std::max(bytes - 1 - i, 1U))) {
      value[i] = static_cast<char>(value[i] ^ 0x10);
      const bool passes = maker.CheckAll(kKey, value.data(), &version);
      // The least value is a version and no more.
      const bool is_version = bytes == 8 && i < 5;
      ASSERT_EQ(passes, is_version) << bytes << " " << i;
      ASSERT_TRUE(!passes || version != 7) << bytes << " " << i;
      value[i] = static_cast<char>(value[i] ^ 0x10);
    }
  }
}

TEST(ValueMakerTest, AShortValueOfAnotherKeyOrRunIsFound) {
  for (const uint32_t bytes : {8, 12}) {
    const ValueMaker maker(1, bytes);
    uint64_t version = 0;
    const std::string other_key = ValueOf(maker, kKey + 1, 7);
    const std::string other_run = ValueOf(ValueMaker(2, bytes), kKey, 7);
    for (const std::string& value : {other_key, other_run, std::string(bytes, '\0')}) {
      EXPECT_FALSE(maker.CheckAll(kKey, value.data(), &version));
      EXPECT_FALSE(maker.CheckEnds(kKey, value.data(), &version));
    }
  }
}

TEST(ValueMakerTest, ForeignValuesAreFound) {
  const ValueMaker maker(1);
  uint64_t version = 0;
  const std::string other_key = ValueOf(maker, kKey + 1, 7);
  const std::string other_run = ValueOf(ValueMaker(2), kKey, 7);
  const std::string zeroes(kValueSize, '\0');
  for (const std::string* value : {&other_key, &other_run, &zeroes}) {
    EXPECT_FALSE(maker.CheckAll(kKey, value->data(), &version));
    EXPECT_FALSE(maker.CheckEnds(kKey, value->data(), &version));
  }
}

TEST(ValueMakerTest, AMixOfTwoVersionsIsFound) {
  const ValueMaker maker(1);
  const std::string older = ValueOf(maker, kKey, 7);
  const std::string newer = ValueOf(maker, kKey, 8);
  uint64_t version = 0;
  for (size_t cut = 8; cut < kValueSize; cut += 8) {
    const std::string mixed = newer.substr(0, cut) + older.substr(cut);
    EXPECT_FALSE(maker.CheckAll(kKey, mixed.data(), &version)) << cut;
    EXPECT_FALSE(maker.CheckEnds(kKey, mixed.data(), &version)) << cut;
  }
}

TEST(ValueMakerTest, AShiftedValueIsFound) {
  const ValueMaker maker(1);
  std::string value = ValueOf(maker, kKey, 7);
  std::memmove(value.data() + 1024, value.data() + 512, 512);
  uint64_t version = 0;
  EXPECT_FALSE(maker.CheckAll(kKey, value.data(), &version));
}

}  // namespace
}  // namespace engine_race::harness
