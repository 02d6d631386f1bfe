// The oracle of the kill -9 trial: which versions it allows.
#include "harness/crash/oracle.h"

#include <gtest/gtest.h>

#include <set>

namespace engine_race::crash {
namespace {

Shape SmallShape(uint32_t delete_permille) {
  Shape shape;
  shape.seed = 7;
  shape.key_count = 100;
  shape.delete_permille = delete_permille;
  return shape;
}

class CrashOracleTest : public ::testing::Test {
 protected:
  CrashOracleTest() { oracle_.Reset(SmallShape(0)); }

  uint32_t Acknowledge(uint32_t thread, uint32_t key) {
    const Ticket ticket = oracle_.Begin(thread, key);
    oracle_.End(thread, ticket);
    return ticket.version;
  }
  bool Allows(uint32_t key, uint32_t version) {
    return oracle_.Allows(key, oracle_.Floor(key), version);
  }
  void Settle(uint32_t version_of_key_0) {
    uint32_t earlier = 0;
    ASSERT_TRUE(oracle_.Observe(0, version_of_key_0, &earlier));
    for (uint32_t k = 1; k < oracle_.key_count(); ++k) {
      ASSERT_TRUE(oracle_.Observe(k, kAbsent, &earlier));
    }
    ASSERT_TRUE(oracle_.Settle());
  }

  Oracle oracle_{1000, 8};
};

TEST_F(CrashOracleTest, NeverWrittenIsAbsent) {
  EXPECT_TRUE(Allows(0, kAbsent));
  EXPECT_FALSE(Allows(0, 1));
}

TEST_F(CrashOracleTest, AcknowledgedMayNotBeLostOrOlder) {
  Acknowledge(0, 0);
  EXPECT_TRUE(Allows(0, 1));
  EXPECT_FALSE(Allows(0, kAbsent));
  Acknowledge(1, 0);
  EXPECT_FALSE(Allows(0, 1));
  EXPECT_TRUE(Allows(0, 2));
  EXPECT_FALSE(Allows(0, 3)) << "never started";
}

TEST_F(CrashOracleTest, StartedMayBeThereOrNot) {
  Acknowledge(0, 0);
  oracle_.Begin(0, 0);
  EXPECT_TRUE(Allows(0, 1));
  EXPECT_TRUE(Allows(0, 2));
  EXPECT_FALSE(Allows(0, kAbsent));
}

TEST_F(CrashOracleTest, OverlappingWritesMayEndInEitherOrder) {
  Acknowledge(0, 0);
  const Ticket slow = oracle_.Begin(1, 0);
  const Ticket fast = oracle_.Begin(2, 0);
  oracle_.End(2, fast);
  EXPECT_FALSE(Allows(0, 1));
  EXPECT_TRUE(Allows(0, slow.version));
  EXPECT_TRUE(Allows(0, fast.version));
  oracle_.End(1, slow);
  EXPECT_TRUE(Allows(0, slow.version));
  EXPECT_TRUE(Allows(0, fast.version));
  // A write that begins after both have ended rules them out.
  Acknowledge(3, 0);
  EXPECT_FALSE(Allows(0, slow.version));
  EXPECT_FALSE(Allows(0, fast.version));
}

TEST_F(CrashOracleTest, WritesToOtherKeysDoNotMatter) {
  const Ticket other = oracle_.Begin(1, 1);
  Acknowledge(0, 0);
  Acknowledge(0, 0);
  EXPECT_FALSE(Allows(0, 1));
  oracle_.End(1, other);
}

TEST_F(CrashOracleTest, DeletedIsAbsentUntilALaterWrite) {
  oracle_.Reset(SmallShape(500));
  uint32_t key = 0;
  while (oracle_.IsDelete(key, 1) || !oracle_.IsDelete(key, 2) || oracle_.IsDelete(key, 3)) ++key;
  Acknowledge(0, key);
  EXPECT_FALSE(Allows(key, kAbsent));
  const Ticket deleting = oracle_.Begin(0, key);
  EXPECT_TRUE(Allows(key, kAbsent));
  EXPECT_TRUE(Allows(key, 1));
  oracle_.End(0, deleting);
  EXPECT_TRUE(Allows(key, kAbsent));
  EXPECT_FALSE(Allows(key, 1)) << "back from the dead";
  EXPECT_FALSE(Allows(key, 2)) << "a delete has no value";
  Acknowledge(0, key);
  EXPECT_FALSE(Allows(key, kAbsent));
}

TEST_F(CrashOracleTest, WhatWasVerifiedStays) {
  Acknowledge(0, 0);
  oracle_.Begin(0, 0);  // killed: version 2 may or may not be found
  Settle(1);
  oracle_.StartCycle();
  EXPECT_TRUE(Allows(0, 1));
  EXPECT_FALSE(Allows(0, 2)) << "a write that was not there after the recovery came later";
  EXPECT_FALSE(Allows(0, kAbsent));
  EXPECT_EQ(Acknowledge(0, 0), 3u);
  EXPECT_FALSE(Allows(0, 1));
  EXPECT_TRUE(Allows(0, 3));
}

TEST_F(CrashOracleTest, KilledWritersDoNotHoldTheFloorDown) {
  oracle_.Begin(5, 0);
  Settle(kAbsent);
  oracle_.StartCycle();
  Acknowledge(0, 0);
  Acknowledge(0, 0);
  EXPECT_FALSE(Allows(0, 2));
  EXPECT_TRUE(Allows(0, 3));
}

TEST_F(CrashOracleTest, RecoveriesMustAgree) {
  oracle_.Begin(0, 0);
  uint32_t earlier = 99;
  EXPECT_TRUE(oracle_.Observe(0, 1, &earlier));
  EXPECT_TRUE(oracle_.Observe(0, 1, &earlier));
  EXPECT_FALSE(oracle_.Observe(0, kAbsent, &earlier));
  EXPECT_EQ(earlier, 1u);
}

TEST_F(CrashOracleTest, SettleWantsEveryKey) {
  uint32_t earlier = 0;
  ASSERT_TRUE(oracle_.Observe(0, kAbsent, &earlier));
  EXPECT_FALSE(oracle_.Settle());
}

TEST_F(CrashOracleTest, RanksFollowTheKeys) {
  std::set<uint64_t> keys;
  for (uint32_t i = 0; i < oracle_.key_count(); ++i) keys.insert(oracle_.key(i));
  uint32_t rank = 0;
  for (const uint64_t key : keys) {
    EXPECT_EQ(oracle_.key(oracle_.IndexOfRank(rank)), key);
    ++rank;
  }
  EXPECT_EQ(rank, oracle_.key_count());
}

TEST(CrashShapeTest, EverySeedGivesDistinctKeysAndValidOptions) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const Shape shape =
        MakeShape(rng, KeyChoice::kBoth, GeometryChoice::kMixed, IndexChoice::kMixed, 2000);
    std::set<uint64_t> keys;
    for (uint32_t i = 0; i < shape.key_count; ++i) keys.insert(KeyAt(shape, i));
    EXPECT_EQ(keys.size(), shape.key_count) << shape.ToString();
    EXPECT_TRUE(ValidateOptions(DrawOptions(shape, rng)).ok()) << shape.ToString();
    for (int i = 0; i < 100; ++i) EXPECT_LT(PickKey(shape, rng), shape.key_count);
  }
}

}  // namespace
}  // namespace engine_race::crash
