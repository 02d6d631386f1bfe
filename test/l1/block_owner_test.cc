#include "engine_race/l1/block_owner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "engine_race/l1/frame_pool.h"

namespace engine_race::test {
namespace {

using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FramePool;
using l1::kNoFrame;

constexpr uint32_t kChildren = 3;
constexpr uint64_t kOwnerBits = uint64_t{5} << 40;

// One parent, found through `root_`, and its children.
class BlockOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FramePool::Create(4096, 40, &epochs_, &pool_).ok());
    pool_->SetOwner(FrameKind::kBlock, &owner_);
    parent_ = Install(kNoFrame, 0, &root_);
    pool_->info(parent_).children = std::make_unique<std::atomic<uint64_t>[]>(kChildren);
    for (uint32_t i = 0; i < kChildren; ++i) {
      child(i).store((i + 1) | kOwnerBits);
      children_[i] = Install(parent_, i + 1, &child(i));
    }
  }

  uint32_t Install(uint32_t parent_frame, uint32_t place, std::atomic<uint64_t>* swip) {
    const uint32_t frame = pool_->Take();
    FrameInfo& info = pool_->info(frame);
    info.place = place;
    info.parent = swip;
    info.parent_frame = parent_frame;
    const EpochManager::Guard guard(epochs_);
    EXPECT_TRUE(BlockOwner::Install(pool_.get(), frame, Swip(swip->load())));
    return frame;
  }

  std::atomic<uint64_t>& child(uint32_t i) { return pool_->info(parent_).children[i]; }
  Swip Root() const { return Swip(root_.load()); }

  EpochManager epochs_;
  BlockOwner owner_;
  std::unique_ptr<FramePool> pool_;
  std::atomic<uint64_t> root_{0};
  uint32_t parent_ = kNoFrame;
  uint32_t children_[kChildren] = {};
};

TEST_F(BlockOwnerTest, AnEvictedBlocksSwipLeadsToItsPlaceAndKeepsTheOwnersBits) {
  EXPECT_TRUE(Swip(child(1).load()).hot());
  ASSERT_TRUE(pool_->Remove(children_[1]));
  EXPECT_EQ(child(1).load(), 2 | kOwnerBits);
}

TEST_F(BlockOwnerTest, AParentStaysWhileItHasChildrenAndCoolsWhenTheLastIsEvicted) {
  for (uint32_t i = 0; i < kChildren; ++i) {
    EXPECT_FALSE(pool_->Remove(parent_));
    EXPECT_FALSE(Root().cooling());
    EXPECT_TRUE(pool_->Remove(children_[i]));
    EXPECT_EQ(pool_->info(parent_).child_count.load(), kChildren - 1 - i);
  }
  EXPECT_TRUE(Root().hot());
  EXPECT_TRUE(Root().cooling());
  EXPECT_TRUE(pool_->Remove(parent_));
  EXPECT_FALSE(Root().hot());
  EXPECT_EQ(Root().number(), 0u);
  EXPECT_EQ(pool_->used_count(), 0u);
}

TEST_F(BlockOwnerTest, NoChildComesUnderAParentThatIsEvicted) {
  for (const uint32_t child : children_) ASSERT_TRUE(pool_->Remove(child));
  const uint32_t frame = pool_->Take();
  pool_->info(frame).parent = &child(0);
  pool_->info(frame).place = 1;
  pool_->info(frame).parent_frame = parent_;
  {
    const EpochManager::Guard guard(epochs_);
    ASSERT_TRUE(pool_->Remove(parent_));
    EXPECT_FALSE(BlockOwner::Install(pool_.get(), frame, Swip(child(0).load())));
  }
  pool_->GiveBack(frame);
}

TEST_F(BlockOwnerTest, TheSwipsOfAReusedFrameAreFreed) {
  for (const uint32_t child : children_) ASSERT_TRUE(pool_->Remove(child));
  ASSERT_TRUE(pool_->Remove(parent_));
  EXPECT_NE(pool_->info(parent_).children, nullptr);
  pool_->EvictAhead(40);
  EXPECT_EQ(pool_->info(parent_).children, nullptr);
  EXPECT_EQ(pool_->info(parent_).child_count.load(), 0u);
}

TEST_F(BlockOwnerTest, AFailedInstallationLeavesTheParentAsItWas) {
  ASSERT_TRUE(pool_->Remove(children_[0]));
  const uint32_t frame = pool_->Take();
  pool_->info(frame).parent = &child(0);
  pool_->info(frame).place = 1;
  pool_->info(frame).parent_frame = parent_;
  {
    const EpochManager::Guard guard(epochs_);
    EXPECT_FALSE(BlockOwner::Install(pool_.get(), frame, Swip(7)));
  }
  EXPECT_EQ(pool_->info(parent_).child_count.load(), kChildren - 1);
  pool_->GiveBack(frame);
}

}  // namespace
}  // namespace engine_race::test
