// Frames that are reached through other frames: who goes when, known from below or searched for.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "engine_race/l1/frame_pool.h"

namespace engine_race::test {
namespace {

using l1::EpochManager;
using l1::FrameInfo;
using l1::FramePool;
using l1::ParentFinder;

constexpr uint32_t kChildren = 3;

// One parent, found through `root_`, and its children.
class FrameParentsTest : public ::testing::TestWithParam<bool>, public ParentFinder {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FramePool::Create(4096, 40, &epochs_, nullptr, &pool_).ok());
    parent_ = Install(FramePool::kNoFrame, 0, &root_);
    pool_->info(parent_).children = std::make_unique<std::atomic<uint64_t>[]>(kChildren);
    for (uint32_t i = 0; i < kChildren; ++i) {
      children_[i] = Install(parent_, i + 1, &pool_->info(parent_).children[i]);
    }
  }

  uint32_t Install(uint32_t parent_frame, uint32_t place, std::atomic<uint64_t>* swip) {
    const uint32_t frame = pool_->Take();
    FrameInfo& info = pool_->info(frame);
    info.place = place;
    info.parent = swip;
    info.parent_frame = parent_frame;
    info.tag = GetParam() ? reinterpret_cast<uint64_t>(static_cast<ParentFinder*>(this)) : 0;
    const EpochManager::Guard guard(epochs_);
    EXPECT_TRUE(pool_->InstallBlock(frame, Swip(swip->load())));
    // What is searched for is not there to be read.
    if (GetParam()) info.parent = nullptr;
    return frame;
  }

  std::atomic<uint64_t>* FindParent(uint32_t frame, uint32_t* parent_frame) const override {
    ++searches_;
    *parent_frame = frame == parent_ ? FramePool::kNoFrame : parent_;
    for (uint32_t i = 0; i < kChildren; ++i) {
      if (children_[i] == frame) return &pool_->info(parent_).children[i];
    }
    return &root_;
  }

  Swip Root() const { return Swip(root_.load()); }

  EpochManager epochs_;
  std::unique_ptr<FramePool> pool_;
  mutable std::atomic<uint64_t> root_{0};
  uint32_t parent_ = FramePool::kNoFrame;
  uint32_t children_[kChildren] = {};
  mutable int searches_ = 0;
};

TEST_P(FrameParentsTest, AParentStaysWhileItHasChildrenAndCoolsWhenTheLastHasGone) {
  for (uint32_t i = 0; i < kChildren; ++i) {
    EXPECT_FALSE(pool_->Remove(parent_));
    EXPECT_FALSE(Root().cooling());
    EXPECT_TRUE(pool_->Remove(children_[i]));
    EXPECT_EQ(pool_->info(parent_).child_count.load(), kChildren - 1 - i);
  }
  EXPECT_TRUE(Root().hot());
  EXPECT_TRUE(Root().cooling());
  EXPECT_EQ(searches_ > 0, GetParam());
  EXPECT_TRUE(pool_->Remove(parent_));
  EXPECT_FALSE(Root().hot());
  EXPECT_EQ(Root().number(), 0u);
  EXPECT_EQ(pool_->used_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(KnownOrSearchedFor, FrameParentsTest, testing::Bool());

}  // namespace
}  // namespace engine_race::test
