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
  Limbo limbo(epochs);
  size_t destroyed = 0;
  RetireSome(Limbo::kBatch - 1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 0u);
  RetireSome(1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, Limbo::kBatch);
}

TEST(LimboTest, AReaderKeepsWhatWasRetiredSinceItEntered) {
  EpochManager epochs;
  Limbo limbo(epochs);
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
  Limbo limbo(epochs);
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

TEST(LimboTest, ManyBytesAreLookedForSooner) {
  EpochManager epochs;
  Limbo limbo(epochs);
  size_t destroyed = 0;
  limbo.Retire(std::make_unique<Counted>(&destroyed), Limbo::kBatchBytes - 1);
  EXPECT_EQ(destroyed, 0u);
  limbo.Retire(std::make_unique<Counted>(&destroyed), 1);
  EXPECT_EQ(destroyed, 2u);
  limbo.Retire(std::make_unique<Counted>(&destroyed), Limbo::kBatchBytes - 1);
  EXPECT_EQ(destroyed, 2u) << "only what came since the last look";
}

// What is kept under a lock is destroyed by a later call without one.
TEST(LimboTest, WhatIsKeptWaitsForTheNextLook) {
  EpochManager epochs;
  Limbo limbo(epochs);
  size_t destroyed = 0;
  for (size_t i = 0; i < 2 * Limbo::kBatch; ++i) {
    limbo.Keep(std::make_unique<Counted>(&destroyed));
  }
  EXPECT_EQ(destroyed, 0u);
  RetireSome(1, &limbo, &destroyed);
  EXPECT_EQ(destroyed, 2 * Limbo::kBatch + 1);
  limbo.Keep(std::make_unique<Counted>(&destroyed));
  limbo.FreeSafe();
  EXPECT_EQ(destroyed, 2 * Limbo::kBatch + 2);
}

TEST(LimboTest, BytesThatWaitAreCounted) {
  EpochManager epochs;
  Limbo limbo(epochs);
  size_t destroyed = 0;
  limbo.Retire(std::make_unique<Counted>(&destroyed), 100);
  auto reader = std::make_unique<EpochManager::Guard>(epochs);
  limbo.Retire(std::make_unique<Counted>(&destroyed), 30);
  EXPECT_EQ(limbo.bytes(), 130u);
  limbo.FreeSafe();
  EXPECT_EQ(limbo.bytes(), 30u) << "the reader may have found it";
  reader.reset();
  limbo.FreeSafe();
  EXPECT_EQ(limbo.bytes(), 0u);
  EXPECT_EQ(destroyed, 2u);
}

TEST(LimboTest, NothingWaitsAtTheEnd) {
  EpochManager epochs;
  size_t destroyed = 0;
  {
    Limbo limbo(epochs);
    RetireSome(1, &limbo, &destroyed);
    EXPECT_EQ(destroyed, 0u);
  }
  EXPECT_EQ(destroyed, 1u);
}

}  // namespace
}  // namespace engine_race::test
