#include "engine_race/l1/frame_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "engine_race/l1/block_owner.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FramePool;

constexpr size_t kFrameBytes = 4096;
constexpr uint64_t kPoolOwnerBits = uint64_t{5} << 40;

// An array of swips. Each leads to its own page, whose place on disk is the swip's index.
class FramePoolTest : public ::testing::Test {
 protected:
  void Make(uint32_t frame_count, uint32_t page_count = 64) {
    ASSERT_TRUE(FramePool::Create(kFrameBytes, frame_count, &epochs_, &pool_).ok());
    pool_->SetOwner(FrameKind::kBlock, &owner_);
    pages_ = std::make_unique<std::atomic<uint64_t>[]>(page_count);
    for (uint32_t i = 0; i < page_count; ++i) pages_[i] = i | kPoolOwnerBits;
  }

  Swip At(uint32_t page) const { return Swip(pages_[page].load()); }

  // Fills the frame for the page and installs it.
  bool Install(uint32_t frame, uint32_t page) {
    FrameInfo& info = pool_->info(frame);
    info.parent = &pages_[page];
    info.place = page;
    info.parent_frame = FramePool::kNoFrame;
    std::memset(pool_->data(frame), static_cast<int>(page & 0xff), kFrameBytes);
    return BlockOwner::Install(pool_.get(), frame, Swip(page | kPoolOwnerBits));
  }
  // The frame of the page; kNoFrame if no frame could be had.
  uint32_t Bring(uint32_t page) {
    const uint32_t frame = pool_->Take();
    if (frame == FramePool::kNoFrame) return frame;
    if (Install(frame, page)) return frame;
    pool_->GiveBack(frame);
    return FramePool::kNoFrame;
  }
  void Touch(uint32_t page) {
    const EpochManager::Guard guard(epochs_);
    const Swip swip = At(page);
    if (swip.cooling()) BlockOwner::Heat(&pages_[page], swip);
  }

  EpochManager epochs_;
  BlockOwner owner_;
  std::unique_ptr<FramePool> pool_;
  std::unique_ptr<std::atomic<uint64_t>[]> pages_;
};

TEST_F(FramePoolTest, FramesAreOfTheirSizeAndDoNotOverlap) {
  Make(10);
  std::set<char*> places;
  for (int i = 0; i < 10; ++i) {
    const uint32_t frame = pool_->Take();
    ASSERT_LT(frame, 10u);
    places.insert(pool_->data(frame));
    std::memset(pool_->data(frame), i, kFrameBytes);
  }
  EXPECT_EQ(places.size(), 10u);
  EXPECT_EQ(*places.rbegin() - *places.begin(), 9 * static_cast<ptrdiff_t>(kFrameBytes));
  // All frames are taken and none is installed, so none can be evicted.
  EXPECT_EQ(pool_->Take(), FramePool::kNoFrame);
}

TEST_F(FramePoolTest, AnInstalledFrameIsReachedAndKeepsTheOwnersBits) {
  Make(2);
  const uint32_t frame = Bring(3);
  ASSERT_NE(frame, FramePool::kNoFrame);
  EXPECT_TRUE(At(3).hot());
  EXPECT_FALSE(At(3).cooling());
  EXPECT_EQ(At(3).number(), frame);
  EXPECT_EQ(At(3).word() & kPoolOwnerBits, kPoolOwnerBits);
  EXPECT_EQ(pool_->data(frame)[17], 3);
  EXPECT_EQ(pool_->used_count(), 1u);
  ASSERT_TRUE(pool_->Remove(frame));
  EXPECT_EQ(At(3).word(), 3 | kPoolOwnerBits);
  EXPECT_FALSE(pool_->Remove(frame));
  EXPECT_EQ(pool_->used_count(), 0u);
}

TEST_F(FramePoolTest, TheSecondToInstallAPageIsTold) {
  Make(2);
  ASSERT_NE(Bring(1), FramePool::kNoFrame);
  EXPECT_EQ(Bring(1), FramePool::kNoFrame);
  // The frame of the refused page was given back.
  EXPECT_NE(Bring(2), FramePool::kNoFrame);
}

TEST_F(FramePoolTest, OneFrameServesOnePageAfterTheOther) {
  Make(1);
  for (uint32_t page = 0; page < 20; ++page) {
    ASSERT_EQ(Bring(page), 0u);
    if (page > 0) {
      EXPECT_FALSE(At(page - 1).hot());
    }
  }
  EXPECT_EQ(pool_->eviction_count(), 19u);
}

TEST_F(FramePoolTest, WhatIsReadAgainStaysAndWhatIsNotGoes) {
  constexpr uint32_t kFrames = 100;
  Make(kFrames, 1000);
  for (uint32_t page = 0; page < kFrames; ++page) ASSERT_NE(Bring(page), FramePool::kNoFrame);
  // Ten pages are read all the time while hundreds of others are read once.
  for (uint32_t page = kFrames; page < 900; ++page) {
    for (uint32_t kept = 0; kept < 10; ++kept) Touch(kept * 7);
    ASSERT_NE(Bring(page), FramePool::kNoFrame);
  }
  for (uint32_t kept = 0; kept < 10; ++kept) EXPECT_TRUE(At(kept * 7).hot()) << kept;
  uint32_t hot = 0;
  for (uint32_t page = 0; page < 900; ++page) hot += At(page).hot();
  EXPECT_EQ(hot, pool_->used_count());
  EXPECT_LE(hot, kFrames);
  // Few frames are empty because of evictions ahead of need.
  EXPECT_GE(hot, kFrames - 8);
}

TEST_F(FramePoolTest, AFrameIsNotUsedAgainWhileSomebodyIsInside) {
  Make(1);
  ASSERT_EQ(Bring(1), 0u);
  {
    const EpochManager::Guard guard(epochs_);
    // From another thread, because a reader inside the epoch must not take frames.
    std::thread other([&] {
      EXPECT_EQ(pool_->Take(), FramePool::kNoFrame);
      EXPECT_FALSE(At(1).hot());
    });
    other.join();
    EXPECT_EQ(pool_->data(0)[100], 1);
  }
  EXPECT_EQ(Bring(2), 0u);
}

TEST_F(FramePoolTest, FramesAreTakenInExchangeOnlyWithConsent) {
  Make(4);
  const auto never = [](uint32_t) { return false; };
  const auto always = [](uint32_t) { return true; };
  for (uint32_t page = 0; page < 4; ++page) {
    const uint32_t frame =
        pool_->TakeInExchange(FrameKind::kBlock, 0, never);  // free ones are nobody's
    ASSERT_NE(frame, FramePool::kNoFrame);
    ASSERT_TRUE(Install(frame, page));
  }
  uint32_t first = FramePool::kNoFrame;
  uint32_t second = FramePool::kNoFrame;
  EXPECT_EQ(pool_->TakeInExchange(FrameKind::kBlock, 0,
                                  [&](uint32_t frame) {
                                    first = frame;
                                    return false;
                                  }),
            FramePool::kNoFrame);
  EXPECT_EQ(pool_->eviction_count(), 0u);
  ASSERT_TRUE(pool_->LookAtVictim([&](uint32_t frame) { second = frame; }));
  EXPECT_NE(first, FramePool::kNoFrame);
  EXPECT_EQ(pool_->TakeInExchange(FrameKind::kBlock, 0, always), second);
  EXPECT_FALSE(At(second).hot());
  // With a reserve, victims must be agreed to while there still are free frames.
  pool_->GiveBack(second);
  EXPECT_EQ(pool_->spare_count(), 1u);
  EXPECT_EQ(pool_->TakeInExchange(FrameKind::kBlock, 1, never), FramePool::kNoFrame);
  EXPECT_NE(pool_->TakeInExchange(FrameKind::kBlock, 1, always), FramePool::kNoFrame);
}

TEST_F(FramePoolTest, WhoIsHeatedIsNoVictimAnyMore) {
  Make(3);
  for (uint32_t page = 0; page < 3; ++page) ASSERT_NE(Bring(page), FramePool::kNoFrame);
  uint32_t victim = FramePool::kNoFrame;
  ASSERT_TRUE(pool_->LookAtVictim([&](uint32_t frame) { victim = frame; }));
  const uint32_t page = pool_->info(victim).place;
  EXPECT_TRUE(At(page).cooling());
  Touch(page);
  EXPECT_FALSE(At(page).cooling());
  uint32_t other = victim;
  ASSERT_TRUE(pool_->LookAtVictim([&](uint32_t frame) { other = frame; }));
  EXPECT_NE(other, victim);
}

TEST_F(FramePoolTest, EvictionAheadLeavesFramesToBeHad) {
  Make(64, 128);
  for (uint32_t page = 0; page < 64; ++page) ASSERT_NE(Bring(page), FramePool::kNoFrame);
  EXPECT_EQ(pool_->spare_count(), 0u);
  int calls = 0;
  while (pool_->EvictAhead(10) && calls < 100) ++calls;
  EXPECT_GT(calls, 0);  // a few at a time
  EXPECT_FALSE(pool_->EvictAhead(10));
  EXPECT_EQ(pool_->spare_count(), 10u);
  EXPECT_EQ(pool_->used_count(), 54u);
}

TEST_F(FramePoolTest, ALowerLimitEvictsTheHighestAndGivesMemoryBack) {
  Make(32);
  for (uint32_t page = 0; page < 32; ++page) ASSERT_NE(Bring(page), FramePool::kNoFrame);
  const size_t full_bytes = pool_->memory_bytes();
  pool_->SetLimit(5);
  EXPECT_EQ(pool_->used_count(), 5u);
  EXPECT_EQ(pool_->memory_bytes(), full_bytes - 27 * kFrameBytes);
  for (uint32_t page = 0; page < 32; ++page) {
    if (At(page).hot()) {
      EXPECT_LT(At(page).number(), 5u);
      EXPECT_EQ(pool_->data(At(page).number())[9], static_cast<char>(page));
    }
  }
  // Memory that was given back reads as zeros.
  EXPECT_EQ(pool_->data(20)[0], 0);
  for (uint32_t page = 32; page < 50; ++page) EXPECT_LT(Bring(page), 5u);
  pool_->SetLimit(0);
  EXPECT_EQ(pool_->used_count(), 0u);
  EXPECT_EQ(pool_->Take(), FramePool::kNoFrame);
  pool_->SetLimit(32);
  for (uint32_t page = 0; page < 32; ++page) EXPECT_NE(Bring(page), FramePool::kNoFrame);
  EXPECT_EQ(pool_->used_count(), 32u);
}

TEST_F(FramePoolTest, FramesBelowARaisedLimitHaveTheirMemory) {
  Make(32);
  pool_->SetLimit(4);
  ASSERT_TRUE(pool_->RaiseLimit(20));
  std::array<unsigned char, 32> pages{};
  ASSERT_EQ(::mincore(pool_->data(0), 32 * kFrameBytes, pages.data()), 0);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(pages[i] & 1, i >= 4 && i < 20) << i;
  pool_->SetLimit(8);
  ASSERT_EQ(::mincore(pool_->data(0), 32 * kFrameBytes, pages.data()), 0);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(pages[i] & 1, i >= 4 && i < 8) << i;
}

TEST_F(FramePoolTest, AFrameThatIsTakenWhileTheLimitFallsIsNotInstalled) {
  Make(4);
  std::vector<uint32_t> frames;
  for (int i = 0; i < 4; ++i) frames.push_back(pool_->Take());
  ASSERT_EQ(frames.back(), 3u);
  pool_->SetLimit(2);
  EXPECT_FALSE(Install(3, 3));
  EXPECT_TRUE(Install(0, 0));
  pool_->GiveBack(3);
  pool_->GiveBack(2);
  pool_->GiveBack(1);
  EXPECT_EQ(pool_->spare_count(), 1u);
  EXPECT_EQ(pool_->Take(), 1u);
  EXPECT_EQ(pool_->Take(), 0u);
  EXPECT_EQ(pool_->Take(), FramePool::kNoFrame);
  // The frames beyond the old limit can be used again.
  pool_->SetLimit(4);
  EXPECT_GE(pool_->Take(), 2u);
  EXPECT_GE(pool_->Take(), 2u);
  EXPECT_EQ(pool_->Take(), FramePool::kNoFrame);
}

// Owns frames by tag. Frames in `gone` are orphans.
class TagOwner final : public l1::FrameOwner {
 public:
  Cooled Cool(uint32_t frame, FrameInfo*) noexcept override {
    if (gone[frame]) return Cooled::kOrphaned;
    cooling[frame] = true;
    return Cooled::kCooling;
  }
  bool WasHeated(uint32_t frame, FrameInfo*) noexcept override { return !cooling[frame]; }
  bool Unswizzle(uint32_t frame, FrameInfo*, bool only_cooling) noexcept override {
    return gone[frame] || !only_cooling || cooling[frame];
  }
  void Release(uint32_t, FrameInfo*) noexcept override { ++release_count; }

  std::array<bool, 16> gone{};
  std::array<bool, 16> cooling{};
  int release_count = 0;
};

TEST_F(FramePoolTest, WhatIsSupersededGoesWhenTheHandMeetsIt) {
  TagOwner owner;
  ASSERT_TRUE(FramePool::Create(kFrameBytes, 16, &epochs_, &pool_).ok());
  pool_->SetOwner(FrameKind::kBlock, &owner);
  for (int i = 0; i < 16; ++i) {
    const uint32_t frame = pool_->Take();
    ASSERT_TRUE(pool_->Install(frame, [] { return true; }));
  }
  owner.gone[0] = owner.gone[1] = true;
  // Only the two orphans are evicted, and the caller gives their frames back.
  for (int i = 0; i < 32; ++i) {
    const uint32_t frame =
        pool_->TakeInExchange(FrameKind::kBlock, 0, [](uint32_t) { return false; });
    if (frame != FramePool::kNoFrame) pool_->GiveBack(frame);
  }
  EXPECT_EQ(pool_->eviction_count(), 2u);
  EXPECT_EQ(pool_->used_count(), 14u);
}

// What reads do for an admission waits for no thread that holds the mutex.
TEST_F(FramePoolTest, AnAdmissionIsGivenUpWhileTheMutexIsHeld) {
  Make(4, 8);
  pool_->SetLimit(3);
  ASSERT_EQ(Bring(1), 0u);
  const uint32_t holding = pool_->Take();
  const uint32_t taken = pool_->Take();
  ASSERT_EQ(taken, 2u);
  const auto admit = [&] {
    const auto agree = [](uint32_t) { return true; };
    EXPECT_EQ(pool_->TakeInExchange(FrameKind::kBlock, 0, agree), FramePool::kNoFrame);
    EXPECT_FALSE(pool_->TryInstall(taken, [] { return true; }));
    EXPECT_FALSE(pool_->LookAtVictim([](uint32_t) {}));
    EXPECT_FALSE(pool_->EvictAhead(1));
    EXPECT_FALSE(pool_->RaiseLimit(4));
    pool_->GiveBack(taken);
  };
  // swizzle() is called under the mutex.
  EXPECT_FALSE(pool_->Install(holding, [&] {
    std::thread(admit).join();
    return false;
  }));
  EXPECT_EQ(pool_->limit(), 3u);
  EXPECT_EQ(pool_->spare_count(), 0u);
  // The next call frees what was given back.
  EXPECT_EQ(pool_->Take(), taken);
  pool_->GiveBack(taken);
  pool_->GiveBack(holding);
  EXPECT_EQ(pool_->spare_count(), 2u);
  EXPECT_TRUE(pool_->RaiseLimit(4));
  EXPECT_EQ(pool_->spare_count(), 3u);
  EXPECT_EQ(pool_->eviction_count(), 0u);
}

// Each word of a page has the page's number, and a version beside it. Readers follow swips under
// load, eviction and a changing limit, and never see another page's bytes.
TEST_F(FramePoolTest, ReadersBesideEvictionAndLimitsSeeWholePages) {
  constexpr uint32_t kFrames = 16;
  constexpr uint32_t kPages = 64;
  Make(kFrames, kPages);
  const uint64_t rounds = Sized(200000, 20000);
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<bool> stop{false};
  const auto read = [&](uint32_t page) {
    {
      const EpochManager::Guard guard(epochs_);
      const Swip swip(pages_[page].load(std::memory_order_seq_cst));
      if (swip.hot()) {
        if (swip.cooling()) BlockOwner::Heat(&pages_[page], swip);
        const char* const data = pool_->data(swip.number());
        for (size_t i = 0; i < kFrameBytes; i += 512) wrong += data[i] != static_cast<char>(page);
        hits.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
    Bring(page);
  };
  std::vector<std::thread> readers;
  for (uint32_t t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937 random(t);
      for (uint64_t i = 0; i < rounds; ++i) {
        const uint32_t any = random();
        read(any % 2 == 0 ? any / 2 % kPages : any / 2 % (kFrames / 2));
      }
    });
  }
  std::thread resizer([&] {
    std::mt19937 random(99);
    while (!stop.load()) {
      pool_->SetLimit(random() % (kFrames + 1));
      std::this_thread::yield();
    }
  });
  for (std::thread& reader : readers) reader.join();
  stop = true;
  resizer.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(hits.load(), 0u);
  uint32_t hot = 0;
  for (uint32_t page = 0; page < kPages; ++page) hot += At(page).hot();
  EXPECT_EQ(hot, pool_->used_count());
  pool_->SetLimit(kFrames);
  pool_->SetLimit(0);
  EXPECT_EQ(pool_->used_count(), 0u);
  EXPECT_EQ(pool_->memory_bytes(), kFrames * sizeof(FrameInfo));
}

}  // namespace
}  // namespace engine_race::test
