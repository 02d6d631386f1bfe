#include "engine_race/l1/frame_evictor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine_race/l1/frame_pool.h"

namespace engine_race::test {
namespace {

using l1::EpochManager;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FrameOwner;
using l1::FramePool;
using l1::kNoFrame;

// Notes the order of evictions. Refuses frames, or calls them orphans, as a test says.
class NotingOwner final : public FrameOwner {
 public:
  Cooled Cool(uint32_t frame, FrameInfo*) noexcept override {
    if (stays[frame]) return Cooled::kInUse;
    if (gone[frame]) return Cooled::kOrphaned;
    cooling[frame] = true;
    return Cooled::kCooling;
  }
  bool WasHeated(uint32_t frame, FrameInfo*) noexcept override { return !cooling[frame]; }
  bool Unswizzle(uint32_t frame, FrameInfo*, bool only_cooling) noexcept override {
    if (only_cooling && !cooling[frame]) return false;
    evicted.push_back(frame);
    cooling[frame] = false;
    return true;
  }
  void Release(uint32_t frame, FrameInfo*) noexcept override { released.push_back(frame); }

  static constexpr size_t kFrames = 8;
  std::array<bool, kFrames> stays{};
  std::array<bool, kFrames> gone{};
  std::array<bool, kFrames> cooling{};
  std::vector<uint32_t> evicted;
  std::vector<uint32_t> released;
};

// A pool whose frames are all installed.
class FrameEvictorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FramePool::Create(4096, NotingOwner::kFrames, &epochs_, &pool_).ok());
    pool_->SetOwner(FrameKind::kBlock, &owner_);
    for (uint32_t i = 0; i < NotingOwner::kFrames; ++i) {
      ASSERT_EQ(pool_->Take(), i);
      ASSERT_TRUE(pool_->Install(i, [] { return true; }));
    }
  }

  EpochManager epochs_;
  NotingOwner owner_;
  std::unique_ptr<FramePool> pool_;
};

TEST_F(FrameEvictorTest, TheHandGoesRoundInOrder) {
  for (uint32_t i = 0; i < 5; ++i) ASSERT_NE(pool_->Take(), kNoFrame);
  for (uint32_t i = 1; i < owner_.evicted.size(); ++i) {
    EXPECT_EQ(owner_.evicted[i], owner_.evicted[i - 1] + 1);
  }
  EXPECT_EQ(owner_.released, owner_.evicted);
}

TEST_F(FrameEvictorTest, AHeatedFrameIsPassedOver) {
  uint32_t victim = kNoFrame;
  ASSERT_TRUE(pool_->LookAtVictim([&victim](uint32_t frame) { victim = frame; }));
  owner_.cooling[victim] = false;
  ASSERT_NE(pool_->Take(), kNoFrame);
  ASSERT_FALSE(owner_.evicted.empty());
  EXPECT_NE(owner_.evicted[0], victim);
}

TEST_F(FrameEvictorTest, WhatCannotBeEvictedStays) {
  owner_.cooling = {};
  for (uint32_t i = 0; i < NotingOwner::kFrames; ++i) owner_.stays[i] = i != 5;
  EXPECT_EQ(pool_->Take(), 5u);
  EXPECT_EQ(pool_->Take(), kNoFrame);
}

TEST_F(FrameEvictorTest, ASupersededFrameIsEvictedWithoutWaitingInTheQueue) {
  owner_.gone[6] = true;
  for (uint32_t i = 0; i < NotingOwner::kFrames; ++i) ASSERT_NE(pool_->Take(), kNoFrame);
  EXPECT_EQ(pool_->used_count(), 0u);
  EXPECT_EQ(owner_.evicted.size(), NotingOwner::kFrames);
}

TEST_F(FrameEvictorTest, AnEvictedFrameIsReleasedWhenItsReadersHaveLeft) {
  {
    const EpochManager::Guard guard(epochs_);
    ASSERT_TRUE(pool_->Remove(3));
    pool_->EvictAhead(1);
    EXPECT_TRUE(owner_.released.empty());
  }
  pool_->EvictAhead(1);
  EXPECT_EQ(owner_.released, std::vector<uint32_t>{3});
  EXPECT_EQ(pool_->Take(), 3u);
}

}  // namespace
}  // namespace engine_race::test
