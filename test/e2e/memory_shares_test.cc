// How two users divide memory, by what they book and use alone.
#include "engine_race/memory_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kBlock = kMiB / 4;

// Takes all that it can get, and gives back what it is asked for.
class User final : public MemoryUser {
 public:
  explicit User(MemoryShare* share) : share_(*share) {}

  bool Take(uint64_t bytes) {
    if (!share_.Book(bytes)) return false;
    held_bytes_ += bytes;
    return true;
  }
  void TakeAll() {
    while (Take(kBlock)) continue;
  }
  // Wants a block until it may be had, `limit` times at most; returns how often that was in vain.
  uint64_t WantBlock(uint64_t limit) {
    for (uint64_t i = 0; i < limit; ++i) {
      if (share_.Want(kBlock)) return i;
    }
    return limit;
  }
  void Use() { ++uses_; }
  void Pin(bool pinned) { pinned_ = pinned; }
  uint64_t held_bytes() const { return held_bytes_; }

  uint64_t UseCount() const noexcept override { return uses_; }
  // In blocks.
  void ShrinkTo(uint64_t bytes) noexcept override {
    const uint64_t left = bytes / kBlock * kBlock;
    uint64_t held = held_bytes_;
    if (pinned_) return;
    while (held > left && !held_bytes_.compare_exchange_weak(held, left)) continue;
    if (held > left) share_.Cancel(held - left);
  }

 private:
  MemoryShare& share_;
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> uses_{0};
  std::atomic<bool> pinned_{false};
};

class MemorySharesTest : public ::testing::Test {
 protected:
  MemorySharesTest() { Make(); }
  void Make(uint64_t kept_bytes = 0) {
    shares_ = std::make_unique<MemoryShares>([this] { return rest_.load(); });
    shares_->Keep(kept_bytes, 8 * kMiB);
    frames_ = std::make_unique<User>(shares_->first());
    ranges_ = std::make_unique<User>(shares_->second());
    shares_->SetFirstUser(frames_.get());
    shares_->SetSecondUser(ranges_.get());
  }
  void SetRest(uint64_t bytes) {
    rest_ = bytes;
    EXPECT_TRUE(shares_->RestHasChanged());
    shares_->Settle();
    EXPECT_FALSE(shares_->RestHasChanged());
  }

  std::atomic<uint64_t> rest_{160 * kMiB};
  std::unique_ptr<MemoryShares> shares_;
  std::unique_ptr<User> frames_;
  std::unique_ptr<User> ranges_;
};

TEST_F(MemorySharesTest, TheFirstTakesAllButAnEighth) {
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 140 * kMiB);
  frames_->TakeAll();
  EXPECT_EQ(frames_->held_bytes(), 20 * kMiB);
  Make();
  frames_->TakeAll();
  EXPECT_EQ(frames_->held_bytes(), 140 * kMiB);
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 20 * kMiB);
}

TEST_F(MemorySharesTest, WhatOneDoesNotUseTheOtherOneGets) {
  ASSERT_TRUE(frames_->Take(50 * kMiB));
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 110 * kMiB);
  EXPECT_FALSE(frames_->Take(1));
  ranges_->ShrinkTo(50 * kMiB);
  EXPECT_EQ(shares_->first()->LimitBytes(), 110 * kMiB);
  frames_->TakeAll();
  EXPECT_EQ(frames_->held_bytes(), 110 * kMiB);
}

TEST_F(MemorySharesTest, WhatIsKeptForFramesIsAlwaysThere) {
  Make(kMiB);
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 140 * kMiB);
  SetRest(2 * kMiB);
  EXPECT_EQ(ranges_->held_bytes(), 8 * kMiB);
  for (const uint64_t rest : {2 * kMiB, uint64_t{0}}) {
    rest_ = rest;
    EXPECT_EQ(shares_->first()->LimitBytes(), kMiB);
    frames_->TakeAll();
    EXPECT_EQ(frames_->held_bytes(), kMiB);
    shares_->Settle();
    EXPECT_EQ(frames_->held_bytes(), kMiB);
  }
}

// In small budgets ranges keep 8 MiB, and frames an eighth of what there is beyond.
TEST_F(MemorySharesTest, RangesAlwaysHaveTheirLeast) {
  for (const uint64_t rest : {16 * kMiB, 8 * kMiB + kBlock, 8 * kMiB, 3 * kMiB, uint64_t{0}}) {
    rest_ = rest;
    Make();
    frames_->TakeAll();
    EXPECT_EQ(frames_->held_bytes(), rest < 8 * kMiB ? 0 : rest - 8 * kMiB);
    ranges_->TakeAll();
    EXPECT_EQ(ranges_->held_bytes(), 8 * kMiB);
  }
}

TEST_F(MemorySharesTest, AGrowingIndexTakesFromFramesFirst) {
  frames_->TakeAll();
  ranges_->TakeAll();
  SetRest(100 * kMiB);
  EXPECT_EQ(ranges_->held_bytes(), 20 * kMiB);
  EXPECT_EQ(frames_->held_bytes(), 80 * kMiB);
  // Down to an eighth; ranges pay for the rest.
  frames_->ShrinkTo(0);
  ranges_->TakeAll();
  frames_->TakeAll();
  EXPECT_EQ(frames_->held_bytes(), 12 * kMiB + kMiB / 2);
  SetRest(64 * kMiB);
  EXPECT_EQ(frames_->held_bytes(), 8 * kMiB);
  EXPECT_EQ(ranges_->held_bytes(), 56 * kMiB);
  // What cannot be given now is asked for again when the rest changes next.
  ranges_->Pin(true);
  SetRest(32 * kMiB);
  EXPECT_EQ(ranges_->held_bytes(), 56 * kMiB);
  EXPECT_EQ(frames_->held_bytes(), 4 * kMiB);
  ranges_->Pin(false);
  SetRest(32 * kMiB - 1);
  EXPECT_LE(ranges_->held_bytes() + frames_->held_bytes(), 32 * kMiB);
}

TEST_F(MemorySharesTest, WhatLiesIdleYieldsDownToItsEighth) {
  for (const bool ranges_first : {true, false}) {
    Make();
    User* const first = ranges_first ? ranges_.get() : frames_.get();
    User* const second = ranges_first ? frames_.get() : ranges_.get();
    first->Use();
    first->TakeAll();
    second->TakeAll();
    ASSERT_EQ(second->held_bytes(), 20 * kMiB);
    // An eighth has to be wanted first.
    EXPECT_EQ(second->WantBlock(1000), 20 * kMiB / kBlock);
    EXPECT_TRUE(second->Take(kBlock));
    // From then on every block that is wanted is given at once.
    while (second->WantBlock(1) == 0) ASSERT_TRUE(second->Take(kBlock));
    EXPECT_EQ(second->held_bytes(), 140 * kMiB);
    EXPECT_EQ(first->held_bytes(), 20 * kMiB);
    // And back.
    EXPECT_EQ(first->WantBlock(1000), 20 * kMiB / kBlock);
    EXPECT_TRUE(first->Take(kBlock));
  }
}

TEST_F(MemorySharesTest, WhatIsUsedDoesNotYield) {
  ranges_->TakeAll();
  frames_->TakeAll();
  for (int i = 0; i < 1000; ++i) {
    if (i % 50 == 0) ranges_->Use();
    ASSERT_EQ(frames_->WantBlock(1), 1u);
  }
  EXPECT_EQ(ranges_->held_bytes(), 140 * kMiB);
  // The ranges yield now; a single use of them ends that.
  EXPECT_LT(frames_->WantBlock(1000), 1000u);
  ranges_->Use();
  EXPECT_TRUE(frames_->Take(kBlock));
  EXPECT_EQ(frames_->WantBlock(1), 1u);
}

TEST_F(MemorySharesTest, NobodyToAskIsNobodyToYield) {
  shares_ = std::make_unique<MemoryShares>([this] { return rest_.load(); });
  ASSERT_TRUE(shares_->second()->Book(140 * kMiB));
  EXPECT_FALSE(shares_->first()->Want(100 * kMiB));
  rest_ = 10 * kMiB;
  shares_->Settle();
}

// Both grow, want, use and give back at once while the rest moves: together they never hold more
// than there was at most.
TEST_F(MemorySharesTest, BookingsNeverExceedTheRest) {
  const uint64_t rounds = Sized(40000, 4000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (User* const user : {frames_.get(), ranges_.get()}) {
    MemoryShare* const share = user == frames_.get() ? shares_->first() : shares_->second();
    for (uint64_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, user, share] {
        for (uint64_t i = 0; i < rounds; ++i) {
          if (!user->Take(kBlock) && share->Want(kBlock)) user->Take(kBlock);
          if (i % 1000 == 0) user->Use();
          if (i % 3000 == 0) user->ShrinkTo(50 * kMiB);
        }
      });
    }
  }
  std::thread checker([&] {
    while (!stop) {
      const auto held = shares_->HoldBookings();
      ASSERT_LE(frames_->held_bytes() + ranges_->held_bytes(), 160 * kMiB);
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  checker.join();
  SetRest(50 * kMiB);
  EXPECT_LE(frames_->held_bytes() + ranges_->held_bytes(), 50 * kMiB);
}

// Two users that divide the share of frames.
class DividedShareTest : public MemorySharesTest {
 protected:
  DividedShareTest() {
    divided_ = std::make_unique<MemoryShares>(shares_->first());
    divided_->Keep(0, kMiB);
    values_ = std::make_unique<User>(divided_->first());
    blocks_ = std::make_unique<User>(divided_->second());
    divided_->SetFirstUser(values_.get());
    divided_->SetSecondUser(blocks_.get());
    shares_->SetFirstUser(divided_.get());
  }
  uint64_t held_bytes() const { return values_->held_bytes() + blocks_->held_bytes(); }

  std::unique_ptr<MemoryShares> divided_;
  std::unique_ptr<User> values_;
  std::unique_ptr<User> blocks_;
};

TEST_F(DividedShareTest, BothTogetherTakeWhatTheOneUserMay) {
  values_->TakeAll();
  EXPECT_EQ(values_->held_bytes(), 122 * kMiB + kMiB / 2) << "seven eighths of 140 MiB";
  blocks_->TakeAll();
  EXPECT_EQ(held_bytes(), 140 * kMiB);
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 20 * kMiB);
  values_->ShrinkTo(0);
  ranges_->TakeAll();
  EXPECT_EQ(ranges_->held_bytes(), 140 * kMiB) << "what both have given back is free for others";
}

TEST_F(DividedShareTest, AGrowingIndexTakesFromValuesFirst) {
  ASSERT_TRUE(blocks_->Take(60 * kMiB));
  values_->TakeAll();
  EXPECT_EQ(held_bytes(), 140 * kMiB);
  SetRest(80 * kMiB);
  EXPECT_EQ(blocks_->held_bytes(), 60 * kMiB);
  EXPECT_EQ(values_->held_bytes(), 10 * kMiB) << "80 MiB less an eighth for ranges";
  SetRest(40 * kMiB);
  EXPECT_LE(held_bytes(), 32 * kMiB);
  EXPECT_GE(held_bytes(), 32 * kMiB - 2 * kBlock);
  EXPECT_GE(values_->held_bytes(), 4 * kMiB - kBlock) << "an eighth";
  SetRest(0);
  EXPECT_EQ(blocks_->held_bytes(), kMiB);
  EXPECT_EQ(values_->held_bytes(), 0u);
}

TEST_F(DividedShareTest, WhatLiesIdleMovesAmongAllThree) {
  values_->TakeAll();
  blocks_->TakeAll();
  // Blocks want more: values lie idle, and ranges have none to give.
  EXPECT_LT(blocks_->WantBlock(1000), 1000u);
  EXPECT_TRUE(blocks_->Take(kBlock));
  values_->Use();
  EXPECT_FALSE(blocks_->Take(kBlock));
  // Ranges want more: the hits of one of the two are a use of both.
  ranges_->TakeAll();
  for (uint64_t i = 0; i < 1000; ++i) {
    blocks_->Use();
    ASSERT_EQ(ranges_->WantBlock(1), 1u);
  }
  EXPECT_EQ(held_bytes(), 140 * kMiB);
  EXPECT_LT(ranges_->WantBlock(1000), 1000u);
  EXPECT_LT(held_bytes(), 140 * kMiB);
  ranges_->ShrinkTo(20 * kMiB);
  // Values want more, and ranges lie idle.
  values_->TakeAll();
  blocks_->TakeAll();
  EXPECT_EQ(held_bytes(), 140 * kMiB);
}

}  // namespace
}  // namespace engine_race::test
