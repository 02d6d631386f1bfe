#include "engine_race/base/is_zero.h"

#include <gtest/gtest.h>

#include <string>

namespace engine_race {
namespace {

TEST(IsZeroTest, OneOtherByteAnywhereIsSeen) {
  for (const size_t size : {0, 1, 2, 7, 64, 4096}) {
    std::string bytes(size, '\0');
    EXPECT_TRUE(IsZero(bytes.data(), size)) << size;
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = 1;
      EXPECT_FALSE(IsZero(bytes.data(), size)) << i << " of " << size;
      EXPECT_TRUE(IsZero(bytes.data(), i)) << "before it";
      bytes[i] = 0;
    }
  }
}

}  // namespace
}  // namespace engine_race
