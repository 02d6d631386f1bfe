#include "engine_race/readers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/store.h"
#include "test/index/refused_memory.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

class ReadersTest : public ::testing::Test {
 protected:
  ReadersTest() {
    options_ = TinyLogOptions();
    options_.worker_count = 1;
    options_.io_backend = IoBackend::kPsync;
    log_ = OpenLog(options_, dir_.path());
    for (uint64_t key = 0; key < 10; ++key) {
      EXPECT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    }
    readers_ = std::make_unique<Readers>(options_, log_.get());
  }
  // The readers go before the log, which tells the index of appends.
  ~ReadersTest() override { readers_.reset(); }

  StoreStats Stats() const {
    StoreStats stats;
    readers_->AddTo(&stats);
    return stats;
  }

  const TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Readers> readers_;
};

TEST_F(ReadersTest, NothingIsMadeBeforeItIsAskedFor) {
  readers_->MakeRoomForIndex();
  EXPECT_EQ(Stats().index_memory_bytes, 0u);
  EXPECT_EQ(Stats().memory_budget_bytes, 0u) << "only what the readers know is added";
  Readers::Set* set = nullptr;
  ASSERT_TRUE(readers_->Ensure(&set).ok());
  EXPECT_GT(Stats().index_memory_bytes, 0u);
}

TEST_F(ReadersTest, WhatCouldNotBeMadeIsTriedAgain) {
  Readers::Set* set = nullptr;
  {
    const RefuseMemory refuse(0);
    const Status refused = Guarded([&] { return readers_->Ensure(&set); });
    EXPECT_EQ(refused.code(), Code::kOutOfMemory);
    EXPECT_TRUE(refuse.refused());
  }
  EXPECT_EQ(Stats().index_memory_bytes, 0u);
  ASSERT_TRUE(readers_->Ensure(&set).ok());
  std::string value;
  EXPECT_TRUE(set->points->Read(9, &value).ok());
  EXPECT_EQ(value, ValueOf(9, 1));
}

TEST_F(ReadersTest, ThreadsThatAskAtOnceAreGivenTheSameReaders) {
  constexpr size_t kThreads = 4;
  std::vector<Readers::Set*> sets(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { EXPECT_TRUE(readers_->Ensure(&sets[i]).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(sets[i], sets[0]);
}

TEST_F(ReadersTest, FinishedReadersRefusePostedReads) {
  readers_->Finish();  // there are none
  Readers::Set* set = nullptr;
  ASSERT_TRUE(readers_->Ensure(&set).ok());
  readers_->Finish();
  auto read = std::make_unique<PostedRead>();
  std::string value;
  read->value = &value;
  read->done = [](const Status&) {};
  EXPECT_EQ(set->pool->Post(std::move(read)).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace engine_race::test
