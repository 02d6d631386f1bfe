#include "harness/claims/index_budget.h"

#include <gtest/gtest.h>

#include "engine_race/base/options.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr uint64_t kMiB = 1 << 20;

// A store that takes 50 MiB for itself and gives `part` of the rest to its index.
IndexBytesFn Giving(double part) {
  return [part](uint64_t budget_bytes, uint64_t* index_bytes) {
    const uint64_t rest = budget_bytes - std::min(budget_bytes, 50 * kMiB);
    *index_bytes = static_cast<uint64_t>(static_cast<double>(rest) * part) + 1;
    return Status::Ok();
  };
}

TEST(IndexBudgetTest, FindsTheBudgetFromBothSides) {
  for (const double part : {1.0, 0.5, 0.25}) {
    for (const uint64_t wanted : {2 * kMiB, 20 * kMiB, 500 * kMiB}) {
      IndexBudget found;
      ASSERT_TRUE(FindIndexBudget(wanted, Giving(part), &found).ok());
      EXPECT_TRUE(found.Has(wanted)) << part << " " << wanted << " " << found.index_bytes;
      uint64_t given = 0;
      ASSERT_TRUE(Giving(part)(found.budget_bytes, &given).ok());
      EXPECT_EQ(found.index_bytes, given);
    }
  }
}

TEST(IndexBudgetTest, StopsAtTheLeastBudget) {
  int calls = 0;
  IndexBudget found;
  ASSERT_TRUE(FindIndexBudget(
                  kMiB,
                  [&](uint64_t budget_bytes, uint64_t* index_bytes) {
                    ++calls;
                    EXPECT_GE(budget_bytes, engine_race::kMinMemoryBudgetBytes);
                    *index_bytes = 100 * kMiB;
                    return Status::Ok();
                  },
                  &found)
                  .ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(found.budget_bytes, engine_race::kMinMemoryBudgetBytes);
  EXPECT_FALSE(found.Has(kMiB));
}

TEST(IndexBudgetTest, AStoreThatGivesNothingOrFailsEndsTheSearch) {
  IndexBudget found;
  int calls = 0;
  const auto nothing = [&](uint64_t, uint64_t* index_bytes) {
    ++calls;
    *index_bytes = 0;
    return Status::Ok();
  };
  ASSERT_TRUE(FindIndexBudget(kMiB, nothing, &found).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(found.Has(kMiB));
  const auto fails = [](uint64_t, uint64_t*) { return Status::IOError("disk"); };
  EXPECT_EQ(FindIndexBudget(kMiB, fails, &found).message(), "disk");
}

}  // namespace
}  // namespace harness
