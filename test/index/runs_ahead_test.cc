#include "engine_race/index/runs_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/run_slices.h"
#include "test/faults/system_calls.h"
#include "test/index/paged_index_fixture.h"
#include "test/index/refused_memory.h"
#include "test/l1/extent_store_fixture.h"

namespace engine_race::test {
namespace {

using l1::ExtentId;

constexpr uint32_t kBlocks = 5;  // of an extent of ExtentStoreFixture::Put
constexpr uint32_t kExtentBytes = kBlocks * format::kIndexBlockBytes;

// Preads of index files: the reads that a walk waits for. psync has threads for others.
class CountWaits final : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread && PathOf(*call).find("/key_index_") != std::string::npos) {
      ++count;
      if (fails) {
        errno = EIO;
        return -1;
      }
    }
    return call->Proceed();
  }

  std::atomic<uint64_t> count{0};
  std::atomic<bool> fails{false};
};

class RunsAheadTest : public ExtentStoreFixture {
 protected:
  RunsAheadTest() {
    for (uint64_t i = 0; i < 6; ++i) ids_.push_back(Put(i << 20));
  }

  bool Begin(size_t i) { return ahead_.Begin(*store_, ids_[i], kBlocks); }
  // Whether the extent is there, with its own blocks.
  bool Takes(size_t i) {
    const char* const blocks = ahead_.Take(ids_[i], kBlocks);
    if (blocks == nullptr) return false;
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const char* const data = blocks + size_t{block} * format::kIndexBlockBytes;
      EXPECT_TRUE(store_->IsWhole(ids_[i], block, data)) << i << ", " << block;
    }
    return true;
  }

  io::FailedBackends failed_{LogFn()};
  std::vector<ExtentId> ids_;
  // With room for three extents.
  RunsAhead ahead_{3 * kExtentBytes, IoBackend::kPsync, &failed_};
};

TEST_F(RunsAheadTest, GivesWhatWasBegun) {
  EXPECT_EQ(ahead_.memory_bytes(), 0U);
  EXPECT_FALSE(Takes(0));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Begin(i));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(Takes(i));
    // A walk may begin anew.
    EXPECT_TRUE(Takes(i));
  }
  EXPECT_FALSE(Takes(3));
  EXPECT_EQ(ahead_.memory_bytes(), 3 * kExtentBytes);
}

TEST_F(RunsAheadTest, TakenMemoryIsUsedAgain) {
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Begin(i));
  EXPECT_FALSE(Begin(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(Begin(i)) << "it is there";
    EXPECT_TRUE(Takes(i));
    EXPECT_TRUE(Begin(i + 3));
    EXPECT_FALSE(Begin((i + 4) % 6)) << "no room";
  }
  for (size_t i = 3; i < 6; ++i) EXPECT_TRUE(Takes(i));
}

TEST_F(RunsAheadTest, ExtentsOfOtherSizesShareTheMemory) {
  // Three blocks, five and fifteen.
  const std::vector<std::pair<size_t, uint32_t>> shapes = {{500, 3}, {1000, 5}, {3500, 15}};
  std::vector<std::pair<ExtentId, uint32_t>> extents;
  for (uint64_t i = 0; i < 40; ++i) {
    const auto& [count, blocks] = shapes[i * i % 3 == 1 && i % 7 == 0 ? 2 : i % 2];
    extents.emplace_back(Put((i + 10) << 20, count), blocks);
  }
  size_t begun = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    while (begun < extents.size() &&
           ahead_.Begin(*store_, extents[begun].first, extents[begun].second)) {
      ++begun;
    }
    EXPECT_GT(begun, i);
    const auto& [id, blocks] = extents[i];
    const char* const data = ahead_.Take(id, blocks);
    ASSERT_NE(data, nullptr) << i;
    for (uint32_t block = 0; block < blocks; ++block) {
      EXPECT_TRUE(store_->IsWhole(id, block, data + size_t{block} * format::kIndexBlockBytes)) << i;
    }
  }
}

TEST_F(RunsAheadTest, WhatWasSteppedOverIsDropped) {
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Begin(i));
  EXPECT_TRUE(Takes(1));
  EXPECT_FALSE(Takes(0));
  EXPECT_TRUE(Takes(2));
  for (size_t i = 3; i < 5; ++i) EXPECT_TRUE(Begin(i));
  EXPECT_TRUE(ahead_.GoTo(ids_[4]));
  EXPECT_TRUE(Takes(3)) << "it was begun";
}

TEST_F(RunsAheadTest, AnExtentStaysWhileTheWalkIsInIt) {
  EXPECT_TRUE(Begin(0) && Begin(1));
  EXPECT_TRUE(Takes(0));
  EXPECT_TRUE(ahead_.GoTo(ids_[0]));
  EXPECT_TRUE(Begin(0) && Begin(1) && Begin(2));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Takes(i)) << "the first one was not dropped";
}

TEST_F(RunsAheadTest, WithoutRoomATakenExtentIsDropped) {
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(Begin(i));
  EXPECT_TRUE(Takes(0));
  EXPECT_TRUE(ahead_.GoTo(ids_[0]));
  EXPECT_TRUE(Begin(3));
  EXPECT_FALSE(Takes(0));
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(Takes(i));
}

TEST_F(RunsAheadTest, AWalkThatHasTakenAllGoesOn) {
  EXPECT_TRUE(Begin(0) && Begin(1));
  EXPECT_TRUE(Takes(0) && Takes(1));
  EXPECT_TRUE(ahead_.GoTo(ids_[2]));
  for (size_t i = 2; i < 5; ++i) EXPECT_TRUE(Begin(i)) << "all memory is free";
}

TEST_F(RunsAheadTest, AWalkLeavesWhatAnotherOneGoesOnWith) {
  EXPECT_TRUE(ahead_.GoTo(ids_[0])) << "nothing is there";
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(Begin(i));
  for (size_t i = 0; i < 2; ++i) {
    for (uint32_t call = 0; call < RunsAhead::kPatience; ++call) {
      EXPECT_FALSE(ahead_.GoTo(ids_[5]));
    }
    EXPECT_TRUE(ahead_.GoTo(ids_[i])) << "the first walk goes on";
    EXPECT_TRUE(Takes(i));
    EXPECT_TRUE(Begin(i + 2));
  }
  for (uint32_t call = 0; call < RunsAhead::kPatience; ++call) EXPECT_FALSE(ahead_.GoTo(ids_[5]));
  EXPECT_TRUE(ahead_.GoTo(ids_[5])) << "the first walk has ended";
  EXPECT_FALSE(Takes(2));
  for (size_t i = 3; i < 6; ++i) EXPECT_TRUE(Begin(i));
}

TEST_F(RunsAheadTest, LargerExtentsThanItsMemoryAreNotRead) {
  const ExtentId large = Put(uint64_t{7} << 20, 4000);
  EXPECT_FALSE(ahead_.Begin(*store_, large, 17));
  EXPECT_TRUE(Begin(0));
  EXPECT_TRUE(Takes(0));
}

TEST_F(RunsAheadTest, AFailedReadGivesNothing) {
  CountWaits reads;
  const ScopedHook hook(&reads);
  reads.fails = true;
  EXPECT_TRUE(Begin(0));
  EXPECT_FALSE(Takes(0));
  reads.fails = false;
  EXPECT_TRUE(Begin(1));
  EXPECT_TRUE(Takes(1));
}

TEST_F(RunsAheadTest, WithoutMemoryNothingIsBegun) {
  for (uint64_t passed = 0;; ++passed) {
    RunsAhead ahead(kExtentBytes, IoBackend::kPsync, &failed_);
    bool begun = false;
    bool refused = false;
    {
      const RefuseMemory refuse(passed);
      begun = ahead.Begin(*store_, ids_[0], kBlocks);
      refused = refuse.refused();
    }
    EXPECT_TRUE(begun || refused);
    EXPECT_EQ(ahead.Take(ids_[0], kBlocks) != nullptr, begun);
    if (!refused) return;
  }
}

// The parameter: the number of frames.
class RunsAheadOfWalksTest : public PagedIndexFixture,
                             public ::testing::WithParamInterface<uint32_t> {
 protected:
  RunsAheadOfWalksTest() : PagedIndexFixture(GetParam()) {}

  // Collects bucket after bucket, and compares. `between` runs after each.
  template <typename BetweenFn>
  void Walk(const BetweenFn& between) {
    RunsAhead ahead(RunsAhead::kMaxBytes, options_.io_backend, log_->failed_backends());
    RunSlices slices(&ahead);
    const Geometry& geometry = log_->geometry();
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      index_->ReadAhead(geometry.FirstKeyOf(b), kLast, &ahead);
      const CountedWalk walk(this);
      std::vector<IndexEntry> entries;
      bool complete = false;
      const Status status =
          index_->Collect(b, 0, kLast, ~size_t{0}, &entries, &complete, kLatestVersion, &slices);
      ASSERT_TRUE(status.ok() && complete) << status.ToString();
      auto next = newest_.lower_bound(geometry.FirstKeyOf(b));
      for (const IndexEntry& entry : entries) {
        ASSERT_NE(next, newest_.end());
        ASSERT_EQ(entry.key, next->first);
        ASSERT_EQ(entry.ref.slot(), next->second);
        ++next;
      }
      ASSERT_TRUE(next == newest_.end() || next->first > geometry.LastKeyOf(b));
      ASSERT_NO_FATAL_FAILURE(between());
    }
  }

  uint64_t wait_count_ = 0;  // of all calls of Collect

 private:
  class CountedWalk {
   public:
    explicit CountedWalk(RunsAheadOfWalksTest* test) : test_(*test), hook_(&waits_) {}
    ~CountedWalk() { test_.wait_count_ += waits_.count; }

   private:
    RunsAheadOfWalksTest& test_;
    CountWaits waits_;
    const ScopedHook hook_;
  };
};

TEST_P(RunsAheadOfWalksTest, WaitForNoReadOfTheirOwn) {
  options_.io_backend = IoBackend::kLibaio;
  ASSERT_NO_FATAL_FAILURE(Fill(60000));
  ASSERT_NO_FATAL_FAILURE(Walk([] {}));
  EXPECT_EQ(wait_count_, 0U);
}

TEST_P(RunsAheadOfWalksTest, FindWhatIsWrittenAndMergedMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(Fill(30000));
  std::mt19937_64 random(4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(Walk([&] { Churn(300, &random); }));
  }
}

INSTANTIATE_TEST_SUITE_P(Frames, RunsAheadOfWalksTest, ::testing::Values(0, 8, 4096),
                         [](const auto& frames) {
                           return "Frames" + std::to_string(frames.param);
                         });

}  // namespace
}  // namespace engine_race::test
