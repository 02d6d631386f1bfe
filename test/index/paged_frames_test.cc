// What frames hold beside a paged index, and when they give memory back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/memory_share.h"
#include "engine_race/index/block_frames.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/l1/extent_id.h"
#include "engine_race/log/format.h"
#include "test/eventually.h"
#include "test/index/fail_index_calls.h"
#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

class PagedFramesTest : public PagedIndexFixture {
 protected:
  PagedFramesTest() : PagedIndexFixture(/*frame_count=*/4096) {}
};

TEST_F(PagedFramesTest, MergedExtentsLeaveNoFramesBehind) {
  ASSERT_NO_FATAL_FAILURE(Fill(20000));
  std::mt19937_64 random(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectFinds());
    ASSERT_NO_FATAL_FAILURE(Churn(8000, &random));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  EXPECT_GT(frames_->pool().used_count(l1::FrameKind::kBlock), 0u);
  // No frame holds a block of an extent that is gone. No root names any, so those are freed.
  ASSERT_TRUE(Eventually([&] {
    return frames_->pool().used_count(l1::FrameKind::kBlock) <=
           index_->disk_bytes() / format::kIndexBlockBytes;
  }));
}

// Blocks that each pass the checks of a block by itself. In an extent that somebody has forged
// their keys may still not fit the fences.
class ForgedBlocksTest : public PagedFramesTest {
 protected:
  static constexpr uint32_t kBlocks = 3;
  static constexpr l1::ExtentId kExtent = {.generation = 7, .place = 0};
  static constexpr uint64_t kFirstKeys[kBlocks] = {1000, 2000, 3000};
  static constexpr uint64_t kLastKey = 3999;

  void SetUp() override {
    ASSERT_TRUE(
        l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count_), share_, &frames_).ok());
    blocks_ = std::make_unique<BlockFrames>(frames_.get());
    run_.id = kExtent;
    run_.Describe(kFirstKeys[0], kLastKey, kBlocks * format::kIndexBlockRecords);
    ASSERT_TRUE(Region::Allocate(format::kIndexBlockBytes, /*huge_pages=*/false, &memory_).ok());
  }
  void TearDown() override {
    blocks_->Evict(run_);
    blocks_.reset();
  }
  // Whether frames take the fences.
  bool OfferFences(const std::vector<uint64_t>& first_keys) {
    auto* const fences = new (memory_.data()) format::IndexFenceBlock{};
    fences->header.record_count = static_cast<uint32_t>(first_keys.size());
    std::copy(first_keys.begin(), first_keys.end(), fences->first_keys);
    Offer(0);
    const l1::EpochManager::Guard guard(frames_->epochs());
    return blocks_->FencesOf(run_) != nullptr;
  }
  // Likewise a block with keys from `first_key` on.
  bool OfferBlock(uint32_t block, uint64_t first_key, uint64_t step = 1) {
    auto* const records = new (memory_.data()) format::IndexRecordBlock{};
    records->header.record_count = format::kIndexBlockRecords;
    for (uint32_t i = 0; i < format::kIndexBlockRecords; ++i)
      records->keys[i] = first_key + i * step;
    Offer(block);
    const l1::EpochManager::Guard guard(frames_->epochs());
    return blocks_->BlockOf(run_, block) != nullptr;
  }

 private:
  void Offer(uint32_t block) {
    blocks_->Offer(kExtent, block, memory_.data(),
                   [&](uint32_t frame) { return blocks_->Swizzle(run_, block, frame); });
  }

  Region memory_;
  PagedRun run_;
  std::unique_ptr<BlockFrames> blocks_;
};

TEST_F(ForgedBlocksTest, FramesTakeNoFencesOfAnotherRun) {
  EXPECT_FALSE(OfferFences({kFirstKeys[0], kFirstKeys[1]}));
  EXPECT_FALSE(OfferFences({kFirstKeys[0] - 1, kFirstKeys[1], kFirstKeys[2]}));
  EXPECT_FALSE(OfferFences({kFirstKeys[0], kFirstKeys[1], kLastKey + 1}));
  EXPECT_TRUE(OfferFences({kFirstKeys[0], kFirstKeys[1], kFirstKeys[2]}));
}

// A walk over blocks in frames would find the keys out of order.
TEST_F(ForgedBlocksTest, FramesTakeNoBlockWithKeysOfAnotherOne) {
  ASSERT_TRUE(OfferFences({kFirstKeys[0], kFirstKeys[1], kFirstKeys[2]}));
  for (const uint64_t other :
       {kFirstKeys[0], kFirstKeys[1] - 1, kFirstKeys[1] + 1, kFirstKeys[2], kLastKey}) {
    EXPECT_FALSE(OfferBlock(2, other)) << other;
  }
  EXPECT_FALSE(OfferBlock(2, kFirstKeys[1], 8)) << "it ends among the keys of the next block";
  EXPECT_TRUE(OfferBlock(2, kFirstKeys[1]));
  EXPECT_FALSE(OfferBlock(3, kLastKey));
  EXPECT_TRUE(OfferBlock(3, kFirstKeys[2]));
}

// Leaves the frames what the index does not take.
class ShareBesideIndex final : public MemoryShare {
 public:
  uint64_t LimitBytes() const noexcept override {
    const Index* const index = index_.load();
    return total_bytes_ - (index == nullptr ? 0 : index->memory_bytes());
  }
  bool Book(uint64_t bytes) noexcept override {
    if (booked_bytes + bytes > LimitBytes()) return false;
    booked_bytes += bytes;
    return true;
  }
  void Cancel(uint64_t bytes) noexcept override { booked_bytes -= bytes; }
  bool Want(uint64_t /*bytes*/) noexcept override { return false; }

  // All that the frames have booked now, and the index.
  void Limit(const Index& index) {
    total_bytes_ = booked_bytes + index.memory_bytes();
    index_ = &index;
  }
  std::atomic<uint64_t> booked_bytes{0};

 private:
  std::atomic<uint64_t> total_bytes_{uint64_t{1} << 30};
  std::atomic<const Index*> index_{nullptr};
};

TEST_F(PagedFramesTest, FramesGiveMemoryBackForRunsThatReadsMakeFlat) {
  options_.index_memory_bytes = uint64_t{1} << 30;
  ShareBesideIndex share;
  share_ = &share;
  ASSERT_NO_FATAL_FAILURE(Fill(20000));
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  const uint64_t paged_bytes = index_->memory_bytes();
  // The frames book more than the runs take.
  std::vector<uint32_t> taken;
  for (uint64_t id = 0; id < 300; ++id) {
    taken.push_back(frames_->TakeFor(l1::FrameKind::kBlock, id, /*frequency=*/1));
    ASSERT_NE(taken.back(), l1::kNoFrame);
  }
  for (const uint32_t frame : taken) frames_->GiveBack(frame);
  share.Limit(*index_);
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_TRUE(Eventually([&] { return index_->memory_bytes() > paged_bytes + 20000 * 16; }));
  EXPECT_TRUE(Eventually([&] { return share.booked_bytes <= share.LimitBytes(); }));
  Close();
}

TEST_F(PagedFramesTest, FramesGiveMemoryBackForABucketThatIsReadAgain) {
  ShareBesideIndex share;
  share_ = &share;
  options_.bucket_count = 1;
  options_.file_count = 1;
  ASSERT_NO_FATAL_FAILURE(Fill(20000));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  FailIndexCalls refuse(CallKind::kPread, EIO);
  const ScopedHook hook(&refuse);
  share.Limit(*index_);
  // Walks need blocks that no frame has.
  frames_->pool().SetLimit(0);
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
  EXPECT_GT(refuse.count, 0);
  EXPECT_LE(share.booked_bytes, share.LimitBytes());
  Close();
}

}  // namespace
}  // namespace engine_race::test
