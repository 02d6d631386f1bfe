// Ranges and the memory that they share with another user: what they keep for later passes shrinks
// and grows with it, and scans go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "engine_race/memory_shares.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

// The other user: memory that is only booked.
class OtherUser final : public MemoryUser {
 public:
  explicit OtherUser(MemoryShare* share) : share_(*share) {}

  bool Take(uint64_t bytes) {
    if (!share_.Book(bytes)) return false;
    held_bytes_ += bytes;
    return true;
  }
  // From now on every look finds that it was used once more.
  void SetBusy(bool busy) { busy_ = busy; }
  uint64_t held_bytes() const { return held_bytes_; }

  uint64_t UseCount() const noexcept override { return busy_ ? ++uses_ : uses_.load(); }
  void ShrinkTo(uint64_t bytes) noexcept override {
    uint64_t held = held_bytes_;
    while (held > bytes && !held_bytes_.compare_exchange_weak(held, bytes)) continue;
    if (held > bytes) share_.Cancel(held - bytes);
  }

 private:
  MemoryShare& share_;
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<bool> busy_{false};
  mutable std::atomic<uint64_t> uses_{0};
};

class RangeMemoryTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 9000;  // 35 MiB

  RangeMemoryTest()
      : store_(64, FastParent()),
        shares_([this] { return rest_.load(); }),
        other_(shares_.first()) {
    shares_.Keep(0, 8 * kMiB);
    store_.Fill(kRecords);
    store_.OpenReader();
    store_.reader.reset();
    RangeTuning tuning;
    tuning.touch_time_percent = 1000000;
    store_.reader = std::make_unique<RangeReader>(*store_.log, *store_.index, store_.options,
                                                  64 * kMiB, tuning, shares_.second());
    shares_.SetSecondUser(store_.reader.get());
    shares_.SetFirstUser(&other_);
    ExpectWithinRest();
  }
  // The reader books with what is destroyed before it.
  ~RangeMemoryTest() override { store_.reader.reset(); }

  // Windows are not part of the share; each scan uses one at the most.
  uint64_t ChunkBytes(uint64_t scan_count = 1) const {
    const uint64_t bytes = store_.reader->memory_bytes();
    return bytes - std::min<uint64_t>(bytes, scan_count * kMiB / 4);
  }
  void ExpectWithinRest() const {
    const auto held = shares_.HoldBookings();
    EXPECT_LE(ChunkBytes() + other_.held_bytes(), rest_);
  }
  void SetRest(uint64_t bytes) {
    rest_ = bytes;
    shares_.Settle();
  }

  ScanStore store_;
  std::atomic<uint64_t> rest_{24 * kMiB};
  MemoryShares shares_;
  OtherUser other_;
};

// Less than a chunk may be missing: another one has no room, or one too many was dropped. A scan
// that waited gets chunks of twice the size, up to this one.
TEST_F(RangeMemoryTest, ChunksFillTheShareAndShrinkWithIt) {
  constexpr uint64_t kLargestChunkBytes = 3 * kMiB;
  const auto expect_filled = [&](uint64_t share_bytes) {
    EXPECT_LE(ChunkBytes(), share_bytes);
    EXPECT_GE(ChunkBytes(), share_bytes - kLargestChunkBytes);
  };
  ExpectScanMatches(store_);
  expect_filled(21 * kMiB);
  SetRest(16 * kMiB);
  expect_filled(14 * kMiB);
  ExpectScanMatches(store_);
  EXPECT_LE(ChunkBytes(), 14 * kMiB);
  // No further than to what they always keep.
  SetRest(1 * kMiB);
  expect_filled(8 * kMiB);
  ExpectScanMatches(store_);
  EXPECT_LE(ChunkBytes(), 8 * kMiB);
  SetRest(24 * kMiB);
  ExpectScanMatches(store_);
  expect_filled(21 * kMiB);
}

// What is given back is really dropped: it is read again. What is kept is not.
TEST_F(RangeMemoryTest, WhatIsKeptServesTheNextPass) {
  rest_ = 64 * kMiB;
  ExpectScanMatches(store_);
  const uint64_t first_pass = store_.reader->read_bytes();
  ExpectScanMatches(store_);
  EXPECT_EQ(store_.reader->read_bytes(), first_pass);
  SetRest(24 * kMiB);
  ExpectScanMatches(store_);
  const uint64_t again = store_.reader->read_bytes() - first_pass;
  EXPECT_GE(again, first_pass / 4);
  EXPECT_LE(again, first_pass * 3 / 4);
}

TEST_F(RangeMemoryTest, TheOtherOneGetsWhatLiesIdle) {
  ExpectScanMatches(store_);
  uint64_t wanted = 0;
  while (other_.Take(kMiB / 4)) continue;
  // An eighth, and what is too little for another chunk.
  EXPECT_LE(other_.held_bytes(), 7 * kMiB);
  for (; wanted < 100 && !shares_.first()->Want(kMiB / 4); ++wanted) continue;
  // An eighth of the rest.
  EXPECT_LE(wanted, 14u);
  while (shares_.first()->Want(kMiB / 4)) {
    ASSERT_TRUE(other_.Take(kMiB / 4));
    ExpectWithinRest();
  }
  EXPECT_GE(other_.held_bytes(), 15 * kMiB);
  EXPECT_LE(ChunkBytes(), 8 * kMiB);
  // While the other one is used, ranges get no more than their least.
  other_.SetBusy(true);
  ExpectScanMatches(store_);
  ExpectScanMatches(store_);
  other_.SetBusy(false);
  EXPECT_LE(ChunkBytes(), 8 * kMiB);
  ExpectWithinRest();
  // And when it is not, they get all but its eighth, for the asking.
  ExpectScanMatches(store_);
  ExpectScanMatches(store_);
  EXPECT_GE(ChunkBytes(), 19 * kMiB);
  EXPECT_GE(other_.held_bytes(), 3 * kMiB);
  ExpectWithinRest();
}

// In the middle of scans, and from inside one, with the sum looked at all the time.
TEST_F(RangeMemoryTest, ScansGoOnWhileTheShareMoves) {
  constexpr int kScans = 3;
  std::atomic<bool> stop{false};
  std::thread checker([&] {
    while (!stop) {
      {
        const auto held = shares_.HoldBookings();
        ASSERT_LE(ChunkBytes(kScans) + other_.held_bytes(), 24 * kMiB);
      }
      std::this_thread::yield();
    }
  });
  RunThreads(kScans, [&](int thread) {
    for (int pass = 0; pass < 3; ++pass) {
      uint64_t count = 0;
      ModelVisitor visitor(store_.model);
      const Status status = store_.Scan(0, ~uint64_t{0}, [&](uint64_t key, const char* value) {
        visitor(key, value);
        if (thread != 0 || ++count % 500 != 0) return;
        if (!other_.Take(kMiB) && shares_.first()->Want(kMiB)) other_.Take(kMiB);
        SetRest((count % 1000 == 0 ? 24 : 12) * kMiB);
        if (count % 3000 == 0) other_.ShrinkTo(2 * kMiB);
      });
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(visitor.complete()) << visitor.count << " visited";
    }
  });
  stop = true;
  checker.join();
  SetRest(12 * kMiB);
  // What was being read ahead goes when it has been read.
  while (ChunkBytes(kScans) + other_.held_bytes() > 12 * kMiB) std::this_thread::yield();
}

}  // namespace
}  // namespace engine_race::test
