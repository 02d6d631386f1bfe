#include "engine_race/base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace engine_race {
namespace {

int Twice(FunctionRef<int(int)> function, int value) { return function(function(value)); }

TEST(FunctionRefTest, CallsWhatItRefersTo) {
  int calls = 0;
  const auto add = [&calls](int value) {
    ++calls;
    return value + 3;
  };
  EXPECT_EQ(Twice(add, 1), 7);
  EXPECT_EQ(Twice([](int value) { return value * 2; }, 5), 20);
  const FunctionRef<int(int)> copied = add;
  EXPECT_EQ(Twice(copied, 0), 6);
  EXPECT_EQ(calls, 4);
}

TEST(FunctionRefTest, ArgumentsAreHandedOn) {
  const auto take = [](std::unique_ptr<int> taken) { return *taken; };
  const FunctionRef<int(std::unique_ptr<int>)> function = take;
  EXPECT_EQ(function(std::make_unique<int>(7)), 7);
}

}  // namespace
}  // namespace engine_race
