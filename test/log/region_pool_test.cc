#include "engine_race/log/region_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace engine_race {
namespace {

constexpr size_t kRegionBytes = 8192;

TEST(RegionPoolTest, HoldersHaveRegionsOfTheirOwn) {
  RegionPool pool(kRegionBytes, 1);
  RegionPool::Lease a;
  RegionPool::Lease b;
  ASSERT_TRUE(pool.Take(Placement(), &a).ok());
  ASSERT_TRUE(pool.Take(Placement(), &b).ok());
  EXPECT_NE(a.data(), b.data());
  std::memset(a.data(), 'a', kRegionBytes);
  std::memset(b.data(), 'b', kRegionBytes);
  EXPECT_EQ(a.data()[kRegionBytes - 1], 'a');
}

TEST(RegionPoolTest, WhatIsGivenBackIsUsedAgain) {
  RegionPool pool(kRegionBytes, 1);
  const char* first = nullptr;
  {
    RegionPool::Lease lease;
    ASSERT_TRUE(pool.Take(Placement(), &lease).ok());
    first = lease.data();
    lease.data()[0] = 'x';
  }
  RegionPool::Lease lease;
  ASSERT_TRUE(pool.Take(Placement(), &lease).ok());
  EXPECT_EQ(lease.data(), first);
  // Memory given back to the system would come back as zeros.
  EXPECT_EQ(lease.data()[0], 'x');
}

TEST(RegionPoolTest, NoMoreAreKeptThanAsked) {
  RegionPool pool(kRegionBytes, 1);
  {
    RegionPool::Lease a;
    RegionPool::Lease b;
    ASSERT_TRUE(pool.Take(Placement(), &a).ok());
    ASSERT_TRUE(pool.Take(Placement(), &b).ok());
    a.data()[0] = b.data()[0] = 'x';
  }
  RegionPool::Lease kept;
  RegionPool::Lease fresh;
  ASSERT_TRUE(pool.Take(Placement(), &kept).ok());
  ASSERT_TRUE(pool.Take(Placement(), &fresh).ok());
  EXPECT_EQ(kept.data()[0], 'x');
  EXPECT_EQ(fresh.data()[0], 0);
}

TEST(RegionPoolTest, AnEmptyLeaseEndsInPeace) {
  const RegionPool::Lease lease;
  EXPECT_EQ(lease.data(), nullptr);
}

}  // namespace
}  // namespace engine_race
