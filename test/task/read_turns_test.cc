// The fair queue by itself: random batches and posted reads, and workers that take turns as
// ReadPool's do. Time is the number of turns taken.
#include "engine_race/task/read_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "test/test_util.h"

namespace engine_race {
namespace {

constexpr size_t kTurn = ReadTurns::kTurnJobs;

// A batch with the memory that it refers to.
struct TestBatch {
  explicit TestBatch(size_t key_count)
      : key_bytes(test::KeyOf(7)),
        keys(key_count, key_bytes),
        values(key_count),
        statuses(key_count),
        batch(keys, values, statuses) {}
  const std::string key_bytes;
  const std::vector<std::string_view> keys;
  std::vector<std::string> values;
  std::vector<Status> statuses;
  ReadBatch batch;
};

std::vector<ReadJob> JobsOf(Turn* turn) {
  std::vector<ReadJob> jobs;
  while (!turn->empty()) jobs.push_back(turn->Pop());
  return jobs;
}

class ReadTurnsTest : public ::testing::Test {
 protected:
  void Post(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      posted_.push_back(std::make_unique<PostedRead>());
      posted_.back()->key = posted_.size() - 1;
      posted_.back()->value = &value_;
      turns_.Post(posted_.back().get());
    }
  }
  // The batch of the next turn; null for posted reads.
  const ReadBatch* TakeOne() {
    Turn turn;
    EXPECT_TRUE(turns_.Take(&turn));
    const std::vector<ReadJob> jobs = JobsOf(&turn);
    EXPECT_FALSE(jobs.empty());
    EXPECT_LE(jobs.size(), kTurn);
    return jobs.empty() ? nullptr : jobs[0].batch;
  }

  std::string value_;
  std::vector<std::unique_ptr<PostedRead>> posted_;
  ReadTurns turns_;
};

TEST_F(ReadTurnsTest, SourcesTakeTurnsInTheOrderOfTheirArrival) {
  Turn turn;
  EXPECT_FALSE(turns_.Take(&turn));
  EXPECT_FALSE(turns_.has_waiting());
  TestBatch a(2 * kTurn + 1);
  TestBatch b(kTurn);
  turns_.Add(&a.batch);
  Post(kTurn + 1);
  turns_.Add(&b.batch);
  EXPECT_EQ(turns_.source_count(), 3U);
  EXPECT_EQ(TakeOne(), &a.batch);
  EXPECT_EQ(TakeOne(), nullptr);
  EXPECT_EQ(TakeOne(), &b.batch);
  EXPECT_EQ(turns_.source_count(), 2U) << "b has no keys left";
  EXPECT_EQ(TakeOne(), &a.batch);
  EXPECT_EQ(TakeOne(), nullptr);
  EXPECT_EQ(TakeOne(), &a.batch);
  EXPECT_FALSE(turns_.has_waiting());
  EXPECT_FALSE(turns_.Take(&turn));
}

TEST_F(ReadTurnsTest, EveryJobIsGivenOnceAndPostedReadsInOrder) {
  TestBatch a(3 * kTurn + 5);
  turns_.Add(&a.batch);
  Post(2 * kTurn + 3);
  std::set<size_t> indices;
  uint64_t next_posted = 0;
  Turn turn;
  while (turns_.Take(&turn)) {
    for (const ReadJob& job : JobsOf(&turn)) {
      ASSERT_TRUE(job.value.is_set());
      if (job.batch == nullptr) {
        ASSERT_EQ(job.posted->key, next_posted++);
      } else {
        ASSERT_TRUE(indices.insert(job.index).second);
      }
    }
  }
  EXPECT_EQ(indices.size(), a.keys.size());
  EXPECT_EQ(next_posted, posted_.size());
}

TEST_F(ReadTurnsTest, AWorkerGoesToTheBatchWhoseTurnIsNext) {
  EXPECT_EQ(turns_.PopBatch(), nullptr);
  Post(1);
  EXPECT_EQ(turns_.PopBatch(), nullptr) << "nobody waits but posted reads";
  TestBatch a(2 * kTurn);
  TestBatch b(1);
  turns_.Add(&a.batch);
  turns_.Add(&b.batch);
  EXPECT_EQ(TakeOne(), nullptr);
  EXPECT_EQ(TakeOne(), &a.batch);
  Post(1);
  EXPECT_EQ(turns_.PopBatch(), &b.batch);
  EXPECT_EQ(turns_.PopBatch(), &a.batch);
  EXPECT_EQ(turns_.PopBatch(), nullptr);
  EXPECT_EQ(turns_.source_count(), 1U);
  EXPECT_EQ(TakeOne(), nullptr);
  TestBatch c(1);
  turns_.Add(&c.batch);
  EXPECT_EQ(TakeOne(), &c.batch) << "the ring was emptied in between";
}

// Endless batches and posted reads in random order, and workers of which some have batches of their
// own. No source waits for more turns than the bound says.
TEST_F(ReadTurnsTest, NoSourceWaitsLongerThanTheBound) {
  std::mt19937_64 random(5);
  for (uint64_t round = 0; round < 50; ++round) {
    const size_t worker_count = 1 + random() % 4;
    const size_t own_count = random() % (worker_count + 1);
    ReadTurns turns;
    std::vector<bool> own_is_next(worker_count, false);
    struct Waiting {
      uint64_t since;
      uint64_t ahead;
    };
    std::map<const ReadBatch*, Waiting> waiting;
    std::vector<std::unique_ptr<TestBatch>> batches;
    uint64_t now = 0;
    for (int step = 0; step < 2000; ++step) {
      const uint64_t ahead = turns.source_count();
      if (ahead < 10 && random() % 3 == 0) {
        batches.push_back(std::make_unique<TestBatch>(1 + random() % (4 * kTurn)));
        turns.Add(&batches.back()->batch);
        waiting[&batches.back()->batch] = {now, ahead};
      }
      for (uint64_t posts = random() % (2 * kTurn); posts > 0; --posts) {
        if (turns.posted_count() == 0) waiting[nullptr] = {now, turns.source_count()};
        posted_.push_back(std::make_unique<PostedRead>());
        turns.Post(posted_.back().get());
      }
      const size_t worker = random() % worker_count;
      if (worker < own_count && (own_is_next[worker] || !turns.has_waiting())) {
        own_is_next[worker] = false;
        ++now;
        continue;
      }
      Turn turn;
      if (!turns.Take(&turn)) continue;
      own_is_next[worker] = true;
      const ReadBatch* const source = JobsOf(&turn)[0].batch;
      const Waiting waited = waiting.at(source);
      ASSERT_LE(now - waited.since, 2 * waited.ahead + worker_count);
      ++now;
      const bool stays = source == nullptr ? turns.posted_count() > 0 : !source->all_taken();
      if (stays) {
        waiting[source] = {now, turns.source_count() - 1};
      } else {
        waiting.erase(source);
      }
    }
  }
}

}  // namespace
}  // namespace engine_race
