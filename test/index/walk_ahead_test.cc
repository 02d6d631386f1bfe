// Long walks over keys read ahead in a paged index.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/index/run_slices.h"
#include "test/faults/system_calls.h"
#include "test/index/paged_index_fixture.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

constexpr size_t kBatch = 256;

class CountIndexReads final : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread && PathOf(*call).find("/key_index_") != std::string::npos) {
      ++count;
    }
    return call->Proceed();
  }

  std::atomic<uint64_t> count{0};
};

// The parameter: the number of frames.
class WalkAheadTest : public PagedIndexFixture, public ::testing::WithParamInterface<uint32_t> {
 protected:
  WalkAheadTest() : PagedIndexFixture(GetParam()) {
    options_.bucket_count = options_.file_count = 2;
  }

  // Walks over all keys as an iterator does, and compares each batch. `between` runs after each.
  template <typename BetweenFn>
  void Walk(bool backwards, RunSlices* ahead, const BetweenFn& between) {
    std::vector<uint64_t> keys(kBatch);
    uint64_t from = backwards ? kLast : 0;
    while (true) {
      size_t count = 0;
      const Status status =
          backwards ? index_->LastKeys(0, from, kLatestVersion, keys, &count, ahead)
                    : index_->FirstKeys(from, kLast, kLatestVersion, keys, &count, ahead);
      ASSERT_TRUE(status.ok()) << status.ToString();
      std::vector<uint64_t> wanted;
      if (backwards) {
        for (auto at = newest_.upper_bound(from);
             at != newest_.begin() && wanted.size() < kBatch;) {
          wanted.insert(wanted.begin(), (--at)->first);
        }
      } else {
        for (auto at = newest_.lower_bound(from); at != newest_.end() && wanted.size() < kBatch;) {
          wanted.push_back((at++)->first);
        }
      }
      ASSERT_EQ(std::vector<uint64_t>(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(count)),
                wanted);
      if (count < kBatch) return;
      from = backwards ? keys[0] - 1 : keys[count - 1] + 1;
      ASSERT_NO_FATAL_FAILURE(between());
    }
  }
  void Walk(bool backwards, RunSlices* ahead) {
    Walk(backwards, ahead, [] {});
  }
};

TEST_P(WalkAheadTest, FindsAllKeysInFewReads) {
  ASSERT_NO_FATAL_FAILURE(Fill(150000));
  for (const bool backwards : {false, true}) {
    const std::unique_ptr<RunSlices> ahead = index_->TakeAhead();
    ASSERT_NE(ahead, nullptr);
    CountIndexReads reads;
    const ScopedHook hook(&reads);
    ASSERT_NO_FATAL_FAILURE(Walk(backwards, ahead.get()));
    EXPECT_GT(reads.count, 2U);
    // The block of fences, and about ten stretches, of each bucket.
    EXPECT_LE(reads.count, 40U);
  }
}

TEST_P(WalkAheadTest, FindsWhatIsWrittenAndMergedMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(Fill(30000));
  std::mt19937_64 random(4);
  for (const bool backwards : {false, true}) {
    const std::unique_ptr<RunSlices> ahead = index_->TakeAhead();
    ASSERT_NO_FATAL_FAILURE(Walk(backwards, ahead.get(), [&] { Churn(300, &random); }));
  }
}

TEST_P(WalkAheadTest, GoesOnWithoutTheMemory) {
  ASSERT_NO_FATAL_FAILURE(Fill(20000));
  for (uint64_t passed = 0; passed < 8; ++passed) {
    const std::unique_ptr<RunSlices> ahead = index_->TakeAhead();
    std::vector<uint64_t> keys(kBatch);
    size_t count = 0;
    Status status;
    bool refused = false;
    {
      const RefuseMemory refuse(passed);
      status = index_->FirstKeys(0, kLast, kLatestVersion, keys, &count, ahead.get());
      refused = refuse.refused();
    }
    ASSERT_TRUE(status.ok()) << passed << ": " << status.ToString();
    EXPECT_EQ(ahead->StopAhead(), !refused) << passed;
    ASSERT_EQ(count, kBatch);
    ASSERT_EQ(keys[0], newest_.begin()->first);
    ASSERT_NO_FATAL_FAILURE(Walk(/*backwards=*/true, ahead.get()));
  }
}

TEST_P(WalkAheadTest, FewWalksReadAheadAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Fill(5000));
  std::vector<std::unique_ptr<RunSlices>> walks;
  for (ptrdiff_t i = 0; i < RunSlices::kMaxAhead; ++i) {
    walks.push_back(index_->TakeAhead());
    ASSERT_NE(walks.back(), nullptr);
  }
  EXPECT_EQ(index_->TakeAhead(), nullptr);
  EXPECT_TRUE(walks[0]->StopAhead());
  walks[1].reset();
  for (int i = 0; i < 2; ++i) walks.push_back(index_->TakeAhead());
  EXPECT_NE(walks.back(), nullptr);
  EXPECT_EQ(index_->TakeAhead(), nullptr);
  // They outlive the index.
  Close();
}

INSTANTIATE_TEST_SUITE_P(Frames, WalkAheadTest, ::testing::Values(0, 8, 4096),
                         [](const auto& frames) {
                           return "Frames" + std::to_string(frames.param);
                         });

}  // namespace
}  // namespace engine_race::test
