// An index that is larger than its memory: whatever the frames hold, it answers what a flat index
// answers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

class PagedIndexTest : public PagedIndexFixture, public ::testing::WithParamInterface<uint32_t> {
 protected:
  PagedIndexTest() : PagedIndexFixture(GetParam()) {}
};

TEST_P(PagedIndexTest, FindsEveryRecordWhateverTheFramesHold) {
  Fill(40000);
  EXPECT_GT(index_->written_bytes(), 40000u * 16);
  EXPECT_LT(index_->memory_bytes(), 64u << 10) << "runs stayed in memory";
  ExpectFinds(7);
  ExpectWalks();
}

TEST_P(PagedIndexTest, TakesNewRecordsAndMergesThem) {
  Fill(20000);
  const uint64_t written = index_->written_bytes();
  std::mt19937_64 random(1);
  for (int i = 0; i < 4; ++i) {
    ASSERT_NO_FATAL_FAILURE(Churn(5000, &random));
    ExpectFinds(5);
  }
  ExpectWalks();
  EXPECT_GT(index_->written_bytes(), written) << "no delta was merged";
}

TEST_P(PagedIndexTest, ViewsKeepTheirRecords) {
  Fill(20000);
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const auto before = newest_;
  std::mt19937_64 random(2);
  ASSERT_NO_FATAL_FAILURE(Churn(20000, &random));
  uint64_t at = 0;
  for (const auto& [key, slot] : before) {
    if (at++ % 5 != 0) continue;
    ValueRef ref;
    ASSERT_TRUE(index_->Find(key, &ref, view.version).ok());
    ASSERT_EQ(ref.slot(), slot);
  }
  std::vector<uint64_t> keys(before.size() + 1);
  size_t count = 0;
  ASSERT_TRUE(index_->FirstKeys(0, kLast, view.version, keys, &count).ok());
  ASSERT_EQ(count, before.size());
  at = 0;
  for (const auto& [key, slot] : before) ASSERT_EQ(keys[at++], key);
  index_->views().Release(&view);
  ExpectFinds(5);
}

TEST_P(PagedIndexTest, OpensFromTheExtentsThatTheRootNames) {
  Fill(30000);
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  Reopen();
  EXPECT_EQ(index_->written_bytes(), 0u) << "it was built again";
  ExpectFinds(7);
  std::mt19937_64 random(3);
  ASSERT_NO_FATAL_FAILURE(Churn(3000, &random));
  // Nothing is saved: the records behind the root come from the key logs.
  Reopen();
  EXPECT_EQ(index_->written_bytes(), 0u) << messages_.text();
  ExpectFinds(3);
  ExpectWalks();
  ASSERT_NO_FATAL_FAILURE(Churn(30000, &random));
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  Reopen();
  ExpectFinds(3);
  ExpectWalks();
}

TEST_P(PagedIndexTest, BuildsBucketsWhoseExtentsAreDamaged) {
  Fill(30000);
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  Close();
  for (int file = 0; file < 4; ++file) {
    const std::string name = dir_.path() + "/key_index_0" + std::to_string(file);
    const int fd = ::open(name.c_str(), O_RDWR);
    ASSERT_GE(fd, 0) << name;
    for (const off_t offset : {100, 4096 + 300, 5 * 4096 + 2500}) {
      char byte = 0;
      ASSERT_EQ(::pread(fd, &byte, 1, offset), 1);
      byte ^= 1;
      ASSERT_EQ(::pwrite(fd, &byte, 1, offset), 1);
    }
    ::close(fd);
  }
  Open();
  ExpectFinds(3);
  EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
  ExpectWalks();
}

TEST_P(PagedIndexTest, ReadersFindTheirRecordsBesideWritersAndMerges) {
  Fill(20000);
  const std::vector<std::pair<uint64_t, uint32_t>> fixed = [&] {
    std::vector<std::pair<uint64_t, uint32_t>> some;
    uint64_t at = 0;
    for (const auto& each : newest_) {
      if (at++ % 10 == 0) some.push_back(each);
    }
    return some;
  }();
  std::map<uint64_t, bool> is_fixed;
  for (const auto& each : fixed) is_fixed[each.first] = true;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      while (!stop) {
        const auto& [key, slot] = fixed[random() % fixed.size()];
        ValueRef ref;
        if (!index_->Find(key, &ref).ok() || ref.slot() != slot) ++wrong;
        std::vector<uint64_t> keys(20);
        size_t count = 0;
        if (!index_->FirstKeys(key, kLast, kLatestVersion, keys, &count).ok()) ++wrong;
        if (count == 0 || keys[0] != key) ++wrong;
      }
    });
  }
  std::mt19937_64 random(9);
  for (int i = 0; i < 30000; ++i) {
    const auto found = newest_.lower_bound(random());
    const bool is_new = found == newest_.end() || is_fixed.contains(found->first);
    const uint64_t key = is_new ? random() : found->first;
    Write(key, random() % 8 == 0);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  ExpectFinds(5);
  ExpectWalks();
}

INSTANTIATE_TEST_SUITE_P(Frames, PagedIndexTest, ::testing::Values(0, 1, 8, 4096),
                         [](const auto& test) { return "Frames" + std::to_string(test.param); });

}  // namespace
}  // namespace engine_race::test
