// Writes of many threads in common transactions.
#include "harness/load/durable_loops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace engine_race::harness {
namespace {

constexpr uint64_t kCommitters = 16;
constexpr uint64_t kWrites = 500;

TEST(GroupCommitTest, CommitsEveryWriteOnceInGroupsThatKeepTheLimit) {
  std::set<uint64_t> keys;
  std::atomic<int> committing{0};
  size_t largest = 0;
  GroupCommit commits(8, [&](std::span<const GroupedWrite> writes) {
    EXPECT_EQ(++committing, 1);
    std::this_thread::yield();
    largest = std::max(largest, writes.size());
    for (const GroupedWrite& write : writes) EXPECT_TRUE(keys.insert(write.key).second);
    --committing;
    return Status::Ok();
  });
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kCommitters; ++thread) {
      threads.emplace_back([&commits, thread] {
        for (uint64_t i = 0; i < kWrites; ++i) {
          EXPECT_TRUE(commits.Submit({thread * kWrites + i, nullptr}).ok());
        }
      });
    }
  }
  EXPECT_EQ(keys.size(), kCommitters * kWrites);
  EXPECT_LE(largest, 8u);
}

TEST(GroupCommitTest, AFailureReachesEveryWriteOfItsGroup) {
  std::atomic<uint64_t> refused_count{0};
  GroupCommit commits(8, [&](std::span<const GroupedWrite> writes) {
    for (const GroupedWrite& write : writes) {
      if (write.key % 10 != 0) continue;
      refused_count += writes.size();
      return Status::Full("no room");
    }
    return Status::Ok();
  });
  std::atomic<uint64_t> seen_count{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kCommitters; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t i = 0; i < kWrites; ++i) {
          const uint64_t key = thread * kWrites + i;
          const Status status = commits.Submit({key, nullptr});
          if (key % 10 == 0) {
            EXPECT_EQ(status.code(), Code::kFull);
          }
          if (!status.ok()) ++seen_count;
        }
      });
    }
  }
  EXPECT_EQ(seen_count, refused_count);
}

}  // namespace
}  // namespace engine_race::harness
