// The work of a registry's calls beside many views, counted in versions that they look at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine_race/index/views.h"
#include "test/index/views_fixture.h"

namespace engine_race::test {
namespace {

class ViewsWorkTest : public ViewsTest {
 protected:
  static constexpr size_t kMany = size_t{1} << 16;
  static constexpr size_t kCalls = 1000;
  // The steps of some searches among twice as many versions, with a few more to amortize growth.
  static constexpr uint64_t kMost = 4 * 17 + 8;

  ViewsWorkTest() {
    views_->NotePinned();
    for (size_t i = 0; i < kMany; ++i) held_.push_back(Take());
    before_ = views_->visited_count();
  }
  ~ViewsWorkTest() override {
    for (View& view : held_) ViewRegistry::Release(&view);
  }
  // How many versions the calls since the last one have looked at.
  uint64_t Visited() {
    const uint64_t before = std::exchange(before_, views_->visited_count());
    return before_ - before;
  }

  std::vector<View> held_;
  uint64_t before_ = 0;
};

TEST_F(ViewsWorkTest, CallsDoNotLookAtAllViews) {
  for (size_t i = 0; i < kCalls; ++i) {
    ViewRegistry::Release(&held_[i]);
    held_.push_back(Take());
  }
  EXPECT_LE(Visited(), kMost * kCalls) << "the oldest is released, and another one taken";
  for (size_t i = 0; i < kCalls; ++i) ViewRegistry::Renew(&held_[kCalls + i]);
  EXPECT_LE(Visited(), kMost * kCalls) << "the oldest is renewed";
  for (size_t i = 0; i < kCalls; ++i) {
    ViewRegistry::RenewAt(held_.back().version, &held_[2 * kCalls + i]);
  }
  EXPECT_LE(Visited(), kMost * kCalls) << "the oldest goes to another's version";
  for (size_t i = 0; i < kCalls; ++i) {
    View copy;
    ASSERT_TRUE(views_->TakeAt(held_[kMany / 2 + i].version, &copy).ok());
    ViewRegistry::Release(&copy);
  }
  EXPECT_LE(Visited(), kMost * kCalls) << "a view is copied";
  for (size_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(views_->Oldest(), views_->TakeCensus().oldest_version);
    const uint64_t version = held_[kMany / 2 + i].version;
    EXPECT_TRUE(views_->AnyIn(version, version + 1));
  }
  EXPECT_LE(Visited(), kMost * kCalls) << "questions";
}

// One census serves all until a view comes or goes.
TEST_F(ViewsWorkTest, LiveVersionsAreCopiedOnceAfterAChange) {
  EXPECT_EQ(views_->Live().oldest(), held_[0].version);
  EXPECT_LE(Visited(), 2 * kMany);
  for (size_t i = 0; i < kCalls; ++i) EXPECT_EQ(views_->Live().oldest(), held_[0].version);
  EXPECT_EQ(Visited(), 0U);
  ViewRegistry::Release(&held_[0]);
  EXPECT_EQ(views_->Live().oldest(), held_[1].version);
  EXPECT_LE(Visited(), 2 * kMany);
}

TEST_F(ViewsWorkTest, AllAreReleasedInAnyOrder) {
  std::mt19937_64 random(11);
  for (int order = 0; order < 3; ++order) {
    while (held_.size() < kMany) held_.push_back(Take());
    if (order == 1) std::reverse(held_.begin(), held_.end());
    if (order == 2) std::shuffle(held_.begin(), held_.end(), random);
    Visited();
    for (View& view : held_) {
      ViewRegistry::Release(&view);
      views_->AnyIn(1, 2);
    }
    held_.clear();
    EXPECT_LE(Visited(), kMost * kMany) << order;
  }
}

// A search passes versions that no view holds once, not each time.
TEST_F(ViewsWorkTest, ReleasedViewsInTheMiddleAreNotPassedEachTime) {
  for (size_t i = 1; i < kMany / 2; ++i) ViewRegistry::Release(&held_[i]);
  Visited();
  for (size_t i = 0; i < kMany; ++i) {
    EXPECT_FALSE(views_->AnyIn(held_[0].version + 1 + i % (kMany / 4), held_[kMany / 2].version));
  }
  EXPECT_LE(Visited(), kMost * kMany);
}

}  // namespace
}  // namespace engine_race::test
