// Records that stay in deltas while many others come: what a save does with them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <thread>
#include <vector>

#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

// A record that stays in a delta would end the coverage there, however many follow.
class ColdRecordTest : public PagedIndexFixture, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr uint64_t kKeys = 20000;

  ColdRecordTest() : PagedIndexFixture(/*frame_count=*/8) {
    options_.index_memory_bytes = GetParam() ? kAutoBytes : 0;
  }
  // One record that is never written again, and many of another key behind it.
  void FillAndWrite() {
    ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
    ASSERT_NO_FATAL_FAILURE(Write(newest_.begin()->first));
    const uint64_t hot_key = std::next(newest_.begin())->first;
    for (int i = 0; i < 15000; ++i) ASSERT_NO_FATAL_FAILURE(Write(hot_key));
  }
  void ExpectReopensFromRoot() {
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
    messages_.Clear();
    Open();
    EXPECT_EQ(messages_.text(), "") << "it was built again";
    ExpectFinds(7);
  }
};

TEST_P(ColdRecordTest, ARecordThatNobodyWritesAgainDoesNotHideTheOnesBehindIt) {
  ASSERT_NO_FATAL_FAILURE(FillAndWrite());
  ExpectReopensFromRoot();
}

// A Sync, a close and the keeper may save at the same time.
TEST_P(ColdRecordTest, SeveralThreadsSaveAtOnce) {
  ASSERT_NO_FATAL_FAILURE(FillAndWrite());
  std::vector<std::thread> savers;
  std::atomic<int> failed{0};
  for (int i = 0; i < 4; ++i) {
    savers.emplace_back([&] { failed += !index_->Save(~uint64_t{0}).ok(); });
  }
  for (std::thread& saver : savers) saver.join();
  EXPECT_EQ(failed, 0);
  ExpectFinds(7);
  ExpectReopensFromRoot();
}

INSTANTIATE_TEST_SUITE_P(Flat, ColdRecordTest, ::testing::Bool());

}  // namespace
}  // namespace engine_race::test
