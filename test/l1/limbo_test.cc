#include "engine_race/l1/limbo.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

namespace engine_race::test {
namespace {

using l1::EpochManager;
using l1::Limbo;

class Counted final : public l1::Retirable {
 public:
  explicit Counted(size_t* destroyed) : destroyed_(*destroyed) {}
  ~Counted() override { ++destroyed_; }

 private:
  size_t& destroyed_;
};

void RetireSome(size_t count, Limbo* limbo, size_t* destroyed) {
  for (size_t i = 0; i < count; ++i) limbo->Retire(std::make_unique<Counted>(destroyed));
}

TEST(LimboTest, ABatchIsDestroyedAtOnceIfNobodyIsInside) {
  EpochManager epochs;
  Limbo limbo(&epochs);
  size_t destroyed = 0;
  RetireSome(Limbo::kBatch - 1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 0u);
  RetireSome(1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, Limbo::kBatch);
}

TEST(LimboTest, AReaderKeepsWhatWasRetiredSinceItEntered) {
  EpochManager epochs;
  Limbo limbo(&epochs);
  size_t destroyed = 0;
  RetireSome(10, &limbo, &destroyed);
  auto reader = std::make_unique<EpochManager::Guard>(epochs);
  RetireSome(3 * Limbo::kBatch, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 10u);
  reader.reset();
  RetireSome(2 * Limbo::kBatch, &limbo, &destroyed);
  EXPECT_GE(destroyed, 10 + 3 * Limbo::kBatch);
}

TEST(LimboTest, ALongReaderDoesNotMakeEveryRetirementLook) {
  EpochManager epochs;
  Limbo limbo(&epochs);
  size_t destroyed = 0;
  auto reader = std::make_unique<EpochManager::Guard>(epochs);
  RetireSome(Limbo::kBatch, &limbo, &destroyed);
  reader.reset();
  // The next look comes after as many again.
  RetireSome(Limbo::kBatch - 1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 0u);
  RetireSome(1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 2 * Limbo::kBatch);
}

TEST(LimboTest, NothingWaitsWhereThereAreNoReadersOrAtTheEnd) {
  size_t destroyed = 0;
  {
    Limbo limbo(nullptr);
    RetireSome(1, &limbo, &destroyed);
    EXPECT_EQ(destroyed, 1u);
  }
  {
    EpochManager epochs;
    Limbo limbo(&epochs);
    RetireSome(1, &limbo, &destroyed);
    EXPECT_EQ(destroyed, 1u);
  }
  EXPECT_EQ(destroyed, 2u);
}

}  // namespace
}  // namespace engine_race::test
