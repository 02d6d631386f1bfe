#include "harness/lab/table_frames.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace engine_race::test {
namespace {

using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameInfo;
using l1::kNoFrame;
using lab::ParentFinder;
using lab::TableFrames;

constexpr uint32_t kChildren = 3;

// One parent, found through `root_`, and its children. The frames have no pointers to their
// parents.
class TableFramesTest : public ::testing::Test, public ParentFinder {
 protected:
  void SetUp() override { ASSERT_TRUE(TableFrames::Create(6, &epochs_, &frames_).ok()); }

  uint32_t Install(uint32_t parent_frame, uint32_t place, std::atomic<uint64_t>* swip) {
    const uint32_t frame = frames_->Take();
    if (frame == kNoFrame) return kNoFrame;
    FrameInfo& info = this->info(frame);
    info.place = place;
    info.parent = swip;
    info.parent_frame = parent_frame;
    const EpochManager::Guard guard(epochs_);
    EXPECT_TRUE(BlockOwner::Install(frames_->pool(), frame, Swip(swip->load())));
    return frame;
  }
  FrameInfo& info(uint32_t frame) { return frames_->pool()->info(frame); }

  std::atomic<uint64_t>* FindParent(uint32_t frame, uint32_t* parent_frame) const override {
    ++searches_;
    *parent_frame = frame == parent_ ? kNoFrame : parent_;
    for (uint32_t i = 0; i < kChildren; ++i) {
      if (children_[i] == frame) return &frames_->pool()->info(parent_).children[i];
    }
    return &root_;
  }

  EpochManager epochs_;
  std::unique_ptr<TableFrames> frames_;
  mutable std::atomic<uint64_t> root_{0};
  uint32_t parent_ = kNoFrame;
  uint32_t children_[kChildren] = {};
  mutable int searches_ = 0;
};

TEST_F(TableFramesTest, ParentsAreSearchedForWhereTheFrameDoesNotKnowThem) {
  parent_ = Install(kNoFrame, 0, &root_);
  info(parent_).children = std::make_unique<std::atomic<uint64_t>[]>(kChildren);
  for (uint32_t i = 0; i < kChildren; ++i) {
    children_[i] = Install(parent_, i + 1, &info(parent_).children[i]);
    frames_->SearchFor(children_[i], this);
    info(children_[i]).parent = nullptr;
    info(children_[i]).parent_frame = kNoFrame;
  }
  EXPECT_EQ(searches_, 0);
  for (uint32_t i = 0; i < kChildren; ++i) {
    EXPECT_FALSE(frames_->pool()->Remove(parent_));
    EXPECT_TRUE(frames_->pool()->Remove(children_[i]));
    EXPECT_EQ(info(parent_).children[i].load(), i + 1);
    EXPECT_EQ(info(parent_).child_count.load(), kChildren - 1 - i);
  }
  EXPECT_EQ(searches_, static_cast<int>(kChildren));
  EXPECT_TRUE(frames_->pool()->Remove(parent_));
  EXPECT_FALSE(Swip(root_.load()).hot());
}

TEST_F(TableFramesTest, AFrameIsNotUsedAgainWhileReadersAreCounted) {
  std::atomic<uint64_t> places[8] = {};
  for (uint32_t i = 0; i < 6; ++i) ASSERT_EQ(Install(kNoFrame, 0, &places[i]), i);
  info(0).children = std::make_unique<std::atomic<uint64_t>[]>(1);
  const auto* const swips = info(0).children.get();
  frames_->reader_count(0).store(1);
  ASSERT_TRUE(frames_->pool()->Remove(0));
  ASSERT_TRUE(frames_->pool()->Remove(1));
  EXPECT_EQ(Install(kNoFrame, 0, &places[6]), 1u);
  // A reader that has counted itself may still follow the swips.
  EXPECT_EQ(info(0).children.get(), swips);
  frames_->reader_count(0).store(0);
  EXPECT_EQ(Install(kNoFrame, 0, &places[7]), 0u);
  EXPECT_EQ(info(0).children, nullptr);
}

TEST_F(TableFramesTest, WhileReadersAreInAllFreeFramesThereIsNone) {
  std::atomic<uint64_t> places[7] = {};
  for (uint32_t i = 0; i < 6; ++i) ASSERT_EQ(Install(kNoFrame, 0, &places[i]), i);
  for (uint32_t i = 0; i < 6; ++i) frames_->reader_count(i).store(1);
  EXPECT_EQ(frames_->Take(), kNoFrame);
  for (uint32_t i = 0; i < 6; ++i) frames_->reader_count(i).store(0);
  EXPECT_NE(frames_->Take(), kNoFrame);
}

}  // namespace
}  // namespace engine_race::test
