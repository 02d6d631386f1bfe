#include "harness/data/value_maker.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace engine_race::harness {
namespace {

constexpr uint64_t kKey = 0x0123456789abcdef;

std::string ValueOf(const ValueMaker& maker, uint64_t key, uint64_t version) {
  std::string value(kValueSize, '\0');
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
