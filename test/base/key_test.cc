#include "engine_race/base/key.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace engine_race {
namespace {

TEST(KeyTest, FirstByteIsTheHighestDigit) {
  const char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(DecodeKey(bytes), 0x0102030405060708u);
}

TEST(KeyTest, NumberOrderIsByteOrder) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t a = random() >> (random() % 64);
    const uint64_t b = random() >> (random() % 64);
    std::string x(8, '\0');
    std::string y(8, '\0');
    EncodeKey(a, x.data());
    EncodeKey(b, y.data());
    EXPECT_EQ(DecodeKey(x.data()), a);
    EXPECT_EQ(a < b, std::memcmp(x.data(), y.data(), 8) < 0);
  }
}

}  // namespace
}  // namespace engine_race
