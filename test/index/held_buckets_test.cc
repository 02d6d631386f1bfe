// Which buckets walks over keys look into: the bitmap, and an index that keeps it.
#include "engine_race/index/held_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

TEST(HeldBucketsTest, FindsWhatIsSetOnBothSides) {
  HeldBuckets held;
  std::set<uint32_t> model;
  std::mt19937_64 random(1);
  const auto check = [&](uint32_t bucket) {
    const auto next = model.lower_bound(bucket);
    ASSERT_EQ(held.Next(bucket), next == model.end() ? HeldBuckets::kNone : *next) << bucket;
    const auto after = model.upper_bound(bucket);
    ASSERT_EQ(held.Previous(bucket),
              after == model.begin() ? HeldBuckets::kNone : *std::prev(after))
        << bucket;
  };
  EXPECT_EQ(held.Next(kMaxBucketCount), HeldBuckets::kNone);
  for (int round = 0; round < 4000; ++round) {
    // Some lie close together, at the ends of words, and at the ends of all.
    uint32_t bucket = static_cast<uint32_t>(random() % kMaxBucketCount);
    if (round % 3 == 0) bucket = bucket / 4096 * 4096 + bucket % 2 * 63;
    if (round % 97 == 0) bucket = round % 2 == 0 ? 0 : kMaxBucketCount - 1;
    if (random() % 16 < (model.size() > 40 ? 12U : 4U)) {
      for (const uint32_t cleared : {bucket, model.empty() ? bucket : *model.begin()}) {
        held.Clear(cleared);
        model.erase(cleared);
      }
    } else {
      held.Set(bucket);
      model.insert(bucket);
    }
    for (const uint32_t each :
         {bucket, std::min(bucket + 1, kMaxBucketCount - 1), std::max(bucket, 1U) - 1,
          static_cast<uint32_t>(random() % kMaxBucketCount), 0U, kMaxBucketCount - 1}) {
      ASSERT_NO_FATAL_FAILURE(check(each));
    }
  }
}

class HeldBucketsIndexTest : public PagedIndexFixture {
 protected:
  HeldBucketsIndexTest() : PagedIndexFixture(/*frame_count=*/64) { options_.bucket_count = 1024; }

  std::vector<uint32_t> Held() const {
    std::vector<uint32_t> held;
    for (uint32_t b = index_->NextHeld(0); b < options_.bucket_count; b = index_->NextHeld(b + 1)) {
      held.push_back(b);
    }
    return held;
  }
  std::vector<uint32_t> Wanted() const {
    std::vector<uint32_t> wanted;
    for (const auto& [key, slot] : newest_) {
      const uint32_t bucket = log_->geometry().BucketOf(key);
      if (wanted.empty() || wanted.back() != bucket) wanted.push_back(bucket);
    }
    return wanted;
  }
};

TEST_F(HeldBucketsIndexTest, AreThoseWithRecordsAlsoAfterAnOpening) {
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_TRUE(Held().empty());
  std::mt19937_64 random(2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(Write(random()));
    ASSERT_EQ(Held(), Wanted());
  }
  ExpectWalks();
  Reopen();
  EXPECT_EQ(Held(), Wanted());
  ExpectWalks();
}

TEST_F(HeldBucketsIndexTest, AreAllWhileBucketsWait) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::mt19937_64 random(3);
  // Enough records of a bucket that an opening restores the index.
  for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(Write(random() >> 10));
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  Close();
  ASSERT_NO_FATAL_FAILURE(Open(Index::Opening::kMayWait));
  ASSERT_TRUE(index_->needs_restore_rest());
  EXPECT_EQ(Held().size(), options_.bucket_count);
  // Written while it waits.
  ASSERT_NO_FATAL_FAILURE(Write(kLast));
  ExpectWalks();
  index_->RestoreRest();
  EXPECT_EQ(Held(), Wanted());
  ExpectWalks();
}

// The first record of a bucket comes beside views. A view that has not shown it never does.
TEST_F(HeldBucketsIndexTest, ViewsShowOneStateOfABucketThatWasEmpty) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint32_t count = options_.bucket_count;
  std::thread writer([&] {
    for (uint32_t b = 0; b < count; ++b) {
      const uint64_t key = log_->geometry().FirstKeyOf(b);
      const std::string value = ValueOf(key, 0);
      EXPECT_TRUE(log_->Append(key, value.data()).ok());
    }
  });
  std::vector<uint64_t> keys(count);
  for (size_t seen = 0; seen < count;) {
    ViewRegistry::View view;
    ASSERT_TRUE(index_->views().Take(&view).ok());
    size_t first = 0;
    size_t again = 0;
    ASSERT_TRUE(index_->FirstKeys(0, kLast, view.version, keys, &first).ok());
    ASSERT_TRUE(index_->LastKeys(0, kLast, view.version, keys, &again).ok());
    ASSERT_EQ(first, again);
    ASSERT_LE(seen, first);
    seen = first;
    ViewRegistry::Release(&view);
  }
  writer.join();
}

}  // namespace
}  // namespace engine_race::test
