// Core shards: answers are those of a map, whichever worker has a table, and while it moves.
#include "harness/lab/core_shards.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"
#include "test/harness/lab/shards_test_util.h"

namespace lab {

namespace test = engine_race::test;

namespace {

using engine_race::AvailableCpus;
using test::KnownBatch;
using test::ShardsTest;

class CoreShardsTest : public ShardsTest {};

// A move or a split by chance, and time for some batches.
void Shuffle(CoreShards* shards, const std::vector<test::KnownTable>& tables,
             std::mt19937_64* random) {
  const std::vector<SubTable> subs = shards->SubTables();
  const SubTable& sub = subs[(*random)() % subs.size()];
  const auto worker = static_cast<uint32_t>((*random)() % shards->worker_count());
  uint32_t upper = 0;
  const std::vector<std::string>& keys = tables[sub.table].keys;
  const Status changed = (*random)() % 4 == 0 && subs.size() < 100
                             ? shards->Split(sub.id, keys[(*random)() % keys.size()], &upper)
                             : shards->Move(sub.id, worker);
  // The key may have been another sub-table's.
  EXPECT_TRUE(changed.ok() || changed.code() == Code::kInvalidArgument) << changed.ToString();
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// How long threads ask; L1_READERS_MS makes it longer.
std::chrono::milliseconds AskingTime() {
  return std::chrono::milliseconds(test::FromEnvironment("L1_READERS_MS", 300));
}

// Batches by chance, for a while and one at the least: the first wrong answer.
std::string AskAround(ShardClient* client, const std::vector<test::KnownTable>& tables,
                      uint64_t seed) {
  const auto until = std::chrono::steady_clock::now() + AskingTime();
  std::mt19937_64 random(seed);
  KnownBatch batch(&tables);
  do {
    batch.Clear();
    const uint64_t count = random() % 4 == 0 ? 1 : 1 + random() % 100;
    for (uint64_t k = 0; k < count; ++k) batch.AddRandom(&random);
    client->Get(batch.gets());
    std::string wrong = batch.Wrong();
    if (!wrong.empty()) return wrong;
  } while (std::chrono::steady_clock::now() < until);
  return {};
}

TEST_F(CoreShardsTest, BatchesOfEverySizeAreAnsweredLikeAMap) {
  MakeTables(9, 3000);
  for (const uint32_t worker_count : {1U, 2U, 7U, 64U}) {
    const std::unique_ptr<CoreShards> shards = Start(worker_count);
    const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
    std::mt19937_64 random(worker_count);
    KnownBatch batch(&tables_);
    for (const uint32_t count : {0U, 1U, 2U, 3U, 17U, 64U, 999U, 1000U, 1U, 30U}) {
      batch.Clear();
      for (uint32_t i = 0; i < count; ++i) batch.AddRandom(&random);
      client->Get(batch.gets());
      ASSERT_EQ(batch.Wrong(), "") << worker_count << " workers, a batch of " << count;
    }
  }
}

TEST_F(CoreShardsTest, TheSameKeyManyTimesInABatchIsAnsweredEachTime) {
  MakeTables(2, 100);
  const std::unique_ptr<CoreShards> shards = Start(2);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  KnownBatch batch(&tables_);
  for (uint32_t i = 0; i < 50; ++i) batch.Add(i % 2, tables_[i % 2].keys[7]);
  client->Get(batch.gets());
  EXPECT_EQ(batch.Wrong(), "");
}

TEST_F(CoreShardsTest, ATableThatIsNotThereFailsAlone) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Start(2);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  char payload[8];
  ShardGet gets[2];
  for (ShardGet& get : gets) get = {0, tables_[0].keys[3].data(), payload, {}};
  gets[0].table = 1;
  client->Get(gets);
  EXPECT_EQ(gets[0].status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(gets[1].status.ok()) << gets[1].status.ToString();
  EXPECT_EQ(std::string(payload, 8), tables_[0].records[tables_[0].keys[3]]);
  EXPECT_EQ(client->WorkerOf(1, tables_[0].keys[3].data()), 2U);
}

TEST_F(CoreShardsTest, TablesAreSpreadOverTheWorkers) {
  MakeTables(6, 100);
  const std::unique_ptr<CoreShards> shards = Start(3);
  std::vector<int> counts(3, 0);
  for (const SubTable& sub : shards->SubTables()) ++counts[sub.worker];
  EXPECT_EQ(counts, std::vector<int>({2, 2, 2}));
}

TEST_F(CoreShardsTest, SplitsCutWhereTheyAreTold) {
  MakeTables(2, 1000);
  const std::unique_ptr<CoreShards> shards = Start(2);
  const std::vector<std::string>& keys = tables_[0].keys;
  uint32_t upper = 0;
  ASSERT_TRUE(shards->Split(0, keys[500], &upper).ok());
  ASSERT_TRUE(shards->Move(upper, 1).ok());
  ASSERT_TRUE(shards->Move(0, 0).ok());
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  EXPECT_EQ(client->WorkerOf(0, keys[0].data()), 0U);
  EXPECT_EQ(client->WorkerOf(0, keys[499].data()), 0U);
  EXPECT_EQ(client->WorkerOf(0, keys[500].data()), 1U);
  EXPECT_EQ(client->WorkerOf(0, keys[999].data()), 1U);
  // Keys at an existing cut, outside, and of another length; no such sub-table; no such worker.
  EXPECT_EQ(shards->Split(upper, keys[500], &upper).code(), Code::kInvalidArgument);
  EXPECT_EQ(shards->Split(0, keys[600], &upper).code(), Code::kInvalidArgument);
  EXPECT_EQ(shards->Split(0, "short", &upper).code(), Code::kInvalidArgument);
  EXPECT_EQ(shards->Split(77, keys[600], &upper).code(), Code::kNotFound);
  EXPECT_EQ(shards->Move(77, 0).code(), Code::kNotFound);
  EXPECT_EQ(shards->Move(0, 2).code(), Code::kInvalidArgument);
  KnownBatch batch(&tables_);
  for (const std::string& key : keys) batch.Add(0, key);
  client->Get(batch.gets());
  EXPECT_EQ(batch.Wrong(), "");
}

TEST_F(CoreShardsTest, ManyClientsAreAnsweredRightWhileSubTablesMoveAndSplit) {
  MakeTables(5, 3000);
  for (const uint32_t worker_count : {2U, 5U}) {
    const std::unique_ptr<CoreShards> shards = Start(worker_count, 24);
    std::atomic<uint32_t> left{6};
    std::vector<std::thread> threads;
    std::vector<std::string> wrong(left);
    for (uint32_t i = 0; i < wrong.size(); ++i) {
      threads.emplace_back([&, i] {
        const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
        wrong[i] = AskAround(client.get(), tables_, i);
        --left;
      });
    }
    std::mt19937_64 random(worker_count);
    while (left > 0) Shuffle(shards.get(), tables_, &random);
    for (std::thread& thread : threads) thread.join();
    for (const std::string& first : wrong) EXPECT_EQ(first, "");
  }
}

TEST_F(CoreShardsTest, WorkersThatAskEachOtherAllGetTheirAnswers) {
  MakeTables(4, 3000);
  const uint32_t worker_count = 4;
  const std::unique_ptr<CoreShards> shards = Start(worker_count);
  std::atomic<uint32_t> left{worker_count};
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(worker_count, "did not run");
  for (uint32_t i = 0; i < worker_count; ++i) {
    threads.emplace_back([&, i] {
      const Status ran = shards->Run(i, [&](ShardClient& client) {
        wrong[i] = AskAround(&client, tables_, i);
        return Status::Ok();
      });
      EXPECT_TRUE(ran.ok()) << ran.ToString();
      --left;
    });
  }
  std::mt19937_64 random(5);
  while (left > 0) Shuffle(shards.get(), tables_, &random);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& first : wrong) EXPECT_EQ(first, "");
}

TEST_F(CoreShardsTest, WorkIsDoneByTheWorkerAndItsStatusComesBack) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Start(2);
  std::thread::id ids[2];
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(shards
                    ->Run(i,
                          [&](ShardClient&) {
                            ids[i] = std::this_thread::get_id();
                            return Status::Ok();
                          })
                    .ok());
  }
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[0], std::this_thread::get_id());
  EXPECT_EQ(shards->Run(0, [](ShardClient&) { return Status::Full("so"); }).ToString(),
            Status::Full("so").ToString());
  EXPECT_EQ(shards->Run(0, [](ShardClient&) -> Status { throw std::bad_alloc(); }).code(),
            Code::kOutOfMemory);
  EXPECT_EQ(shards->Run(2, [](ShardClient&) { return Status::Ok(); }).code(),
            Code::kInvalidArgument);
}

TEST_F(CoreShardsTest, WhatWasHandedOverIsAnsweredBeforeTheWorkersStop) {
  MakeTables(3, 1000);
  for (uint32_t round = 0; round < 10; ++round) {
    const std::unique_ptr<CoreShards> shards = Start(3);
    std::latch asking(4);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
        std::mt19937_64 random(i);
        KnownBatch batch(&tables_);
        for (uint32_t k = 0; k < 50; ++k) batch.AddRandom(&random);
        for (bool all_refused = false, first = true; !all_refused; first = false) {
          client->Get(batch.gets());
          if (first) asking.count_down();
          ASSERT_EQ(batch.Wrong(Code::kIncomplete), "");
          all_refused = true;
          for (const ShardGet& get : batch.gets_now()) {
            all_refused = all_refused && get.status.code() == Code::kIncomplete;
          }
        }
      });
    }
    asking.wait();
    shards->Stop();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(shards->Run(0, [](ShardClient&) { return Status::Ok(); }).code(), Code::kIncomplete);
    bool changed = false;
    EXPECT_EQ(shards->Rebalance(&changed).code(), Code::kIncomplete);
    shards->Stop();
  }
}

TEST_F(CoreShardsTest, WorkThatWaitsInLineIsDoneBeforeTheWorkersStop) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Start(1);
  std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> refused{0};
  std::latch running(1);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    EXPECT_TRUE(shards
                    ->Run(0,
                          [&](ShardClient&) {
                            running.count_down();
                            std::this_thread::sleep_for(std::chrono::milliseconds(50));
                            return Status::Ok();
                          })
                    .ok());
  });
  running.wait();
  for (uint32_t i = 0; i < 5; ++i) {
    threads.emplace_back([&] {
      const Status ran = shards->Run(0, [&](ShardClient&) {
        ++done;
        return Status::Ok();
      });
      if (ran.code() == Code::kIncomplete) ++refused;
    });
  }
  shards->Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done + refused, 5U);
}

TEST_F(CoreShardsTest, ADamagedBlockFailsItsOwnKeysAlone) {
  MakeTables(2, 5000);
  // The first block of records follows the header block and the index.
  {
    std::fstream file(temp_.path() + "/table0", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * kBlockBytes + 2 * kBlockBytes + 100);
    file.put('\x5a').put('\xa5').put('\x5a');
    ASSERT_TRUE(file.good());
  }
  const std::unique_ptr<CoreShards> shards = Start(2);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  KnownBatch batch(&tables_);
  for (const test::KnownTable& table : tables_) {
    for (const std::string& key : table.keys) {
      batch.Add(static_cast<uint32_t>(&table - tables_.data()), key);
    }
  }
  client->Get(batch.gets());
  EXPECT_EQ(batch.Wrong(Code::kCorruption), "");
  uint32_t bad = 0;
  for (const ShardGet& get : batch.gets_now()) {
    if (get.status.code() != Code::kCorruption) continue;
    EXPECT_EQ(get.table, 0U);
    ++bad;
  }
  EXPECT_GT(bad, 0U);
  EXPECT_LT(bad, 2500U);
}

TEST_F(CoreShardsTest, AFileThatIsGoneOrAnotherOneIsAnErrorOfItsGets) {
  MakeTables(3, 100);
  const std::unique_ptr<CoreShards> shards = Start(2);
  std::filesystem::remove(temp_.path() + "/table0");
  test::MakeTable(dir_.get(), "table1", {16, 8}, 100, 9);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  KnownBatch batch(&tables_);
  for (uint32_t i = 0; i < 3; ++i) {
    batch.Add(i, tables_[i].keys[0]);
    batch.Add(i, tables_[i].keys[1]);
  }
  client->Get(batch.gets());
  const std::vector<ShardGet>& gets = batch.gets_now();
  EXPECT_EQ(gets[0].status.code(), Code::kIOError);
  EXPECT_EQ(gets[1].status.code(), Code::kIOError);
  EXPECT_EQ(gets[2].status.code(), Code::kCorruption);
  EXPECT_EQ(gets[3].status.code(), Code::kCorruption);
  EXPECT_TRUE(gets[4].status.ok());
  EXPECT_TRUE(gets[5].status.ok());
}

TEST_F(CoreShardsTest, WhatCannotBeServedIsRefused) {
  std::unique_ptr<CoreShards> shards;
  CoreShardsOptions options;
  options.worker_count = kMaxShardCount + 1;
  EXPECT_EQ(CoreShards::Start(options, &shards).code(), Code::kInvalidArgument);
  options.worker_count = 1;
  options.frame_count = 0;
  EXPECT_EQ(CoreShards::Start(options, &shards).code(), Code::kInvalidArgument);
  options.frame_count = 8;
  options.table.records = Reach::kCache;
  EXPECT_EQ(CoreShards::Start(options, &shards).code(), Code::kInvalidArgument);
  EXPECT_EQ(shards, nullptr);
  shards = Start(1);
  uint32_t table = 0;
  EXPECT_FALSE(shards->AddTable(dir_.get(), "no such table", &table).ok());
  EXPECT_TRUE(shards->SubTables().empty());
}

TEST_F(CoreShardsTest, AHotTableIsSpreadByWhatWasAskedFor) {
  MakeTables(4, 4000);
  const std::unique_ptr<CoreShards> shards = Start(4);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  const std::vector<std::string>& keys = tables_[2].keys;
  // All gets are of the second half of one table.
  std::mt19937_64 random(1);
  KnownBatch batch(&tables_);
  bool changed = true;
  uint32_t steps = 0;
  for (; changed && steps < 12; ++steps) {
    for (uint32_t i = 0; i < 40; ++i) {
      batch.Clear();
      for (uint32_t k = 0; k < 40; ++k) batch.Add(2, keys[2000 + random() % 2000]);
      client->Get(batch.gets());
      ASSERT_EQ(batch.Wrong(), "");
    }
    ASSERT_TRUE(shards->Rebalance(&changed).ok());
  }
  EXPECT_GT(steps, 2U);
  std::vector<uint32_t> counts(4, 0);
  for (uint32_t i = 2000; i < 4000; ++i) ++counts[client->WorkerOf(2, keys[i].data())];
  // One worker had all 2000 keys at first; 500 each would be even.
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 900U);
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 100U);
}

}  // namespace
}  // namespace lab
