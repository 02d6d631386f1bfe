// What released iterators leave to the next, and what is left of them when their store is gone.
#include "engine_race/scan/iterator_pool.h"

#include <gtest/gtest.h>

#include "test/index/refused_memory.h"
#include "test/scan/iterator_test_util.h"

namespace engine_race::test {
namespace {

class IteratorPoolTest : public ::testing::Test {
 protected:
  IteratorPoolTest() {
    store_.Fill(2000);
    store_.OpenPool();
  }

  uint64_t view_count() { return store_.index->views().TakeCensus().count; }

  IteratorStore store_;
};

TEST_F(IteratorPoolTest, ReleasedMemoryIsHandedOutAgain) {
  EXPECT_EQ(store_.pool->memory_bytes(), 0u);
  IteratorOptions options;
  options.prefetch_records = 1;
  Iterator iterator = store_.New(options);
  EXPECT_TRUE(WalkForward(&iterator) == Listed(store_.model));
  iterator.SeekToFirst();
  const char* const buffer = iterator.value().data();
  iterator.Release();
  EXPECT_GT(store_.pool->memory_bytes(), uint64_t{kValueBytes});
  const RefuseMemory none(0);
  for (int i = 0; i < 10; ++i) {
    Iterator next;
    ASSERT_TRUE(store_.pool->New(options, &next).ok());
    EXPECT_EQ(store_.pool->memory_bytes(), 0u);
    next.SeekToFirst();
    EXPECT_EQ(next.value().data(), buffer);
  }
  EXPECT_FALSE(none.refused());
  EXPECT_GT(store_.pool->memory_bytes(), 0u);
}

TEST_F(IteratorPoolTest, WithoutTheCacheNothingIsKept) {
  store_.options.cache_iterators = false;
  store_.OpenPool();
  for (int i = 0; i < 3; ++i) {
    const RefuseMemory second(1);
    Iterator iterator = store_.New();
    EXPECT_FALSE(second.refused());
    iterator.SeekToFirst();
    EXPECT_EQ(VersionAt(&iterator), 1u);
    iterator.Release();
    EXPECT_EQ(store_.pool->memory_bytes(), 0u);
  }
}

TEST_F(IteratorPoolTest, TheViewGoesAtOnceAndTheNextOneHasItsOwn) {
  const uint64_t key = SpreadKey(5);
  for (uint64_t version = 2; version < 100; ++version) {
    Iterator iterator = store_.New();
    EXPECT_EQ(view_count(), 1u);
    iterator.Seek(KeyOf(key));
    ASSERT_EQ(VersionAt(&iterator), store_.model[key]);
    store_.Put(key, version);
    // Neither keys nor values of the one before are left when bounds and errors differ.
    if (version % 3 == 0) iterator.Seek("wrong");
    if (version % 5 == 0) {
      IteratorOptions options;
      const std::string upper = KeyOf(1);
      options.upper_bound = upper;
      options.refresh_every_steps = 1;
      iterator = store_.New(options);
      iterator.SeekToLast();
      EXPECT_EQ(iterator.Valid(), store_.model.contains(0));
    }
    iterator.Release();
    EXPECT_EQ(view_count(), 0u);
    iterator = store_.New();
    EXPECT_TRUE(iterator.status().ok());
    EXPECT_FALSE(iterator.Valid());
  }
}

TEST_F(IteratorPoolTest, WithoutMemoryToReadAheadValuesAreReadAlone) {
  for (int refused_after = 0; refused_after < 12; ++refused_after) {
    Iterator iterator = store_.New();
    iterator.SeekToFirst();
    EXPECT_EQ(VersionAt(&iterator), 1u);
    iterator.Next();
    {
      const RefuseMemory refused(refused_after);
      EXPECT_EQ(iterator.value().size(), kValueBytes) << refused_after;
      EXPECT_TRUE(iterator.Valid()) << refused_after;
    }
    EXPECT_EQ(VersionAt(&iterator), 1u);
    iterator.Release();
    // The next one gets none of its memory.
    store_.OpenPool();
  }
}

TEST_F(IteratorPoolTest, WindowsGoBackToThePool) {
  IteratorOptions options;
  options.prefetch_records = 64;
  uint64_t most_bytes = 0;
  for (int i = 0; i < 20; ++i) {
    Iterator iterator = store_.New(options);
    iterator.SeekToFirst();
    // The iterator lands in the same window: there are four, and whoever released it last left it
    // on top.
    EXPECT_EQ(VersionAt(&iterator), 1u);
    iterator.Release();
    if (i == 0) most_bytes = store_.pool->memory_bytes();
    EXPECT_EQ(store_.pool->memory_bytes(), most_bytes);
  }
}

TEST_F(IteratorPoolTest, ManyAtOnceFromManyThreadsKeepLittle) {
  RunThreads(8, [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Iterator> held;
      for (int i = 0; i < 20; ++i) {
        held.push_back(store_.New());
        held.back().Seek(KeyOf(SpreadKey(static_cast<uint64_t>(thread * 20 + i))));
        ASSERT_EQ(VersionAt(&held.back()), 1u);
      }
    }
  });
  EXPECT_EQ(view_count(), 0u);
  // At most four for each of the threads.
  EXPECT_LE(store_.pool->memory_bytes(), 8 * 4 * (uint64_t{kValueBytes} + 4096));
}

TEST_F(IteratorPoolTest, OnesReleasedByAnotherThreadAreFineToo) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Iterator> made(8);
    for (Iterator& iterator : made) iterator = store_.New();
    RunThreads(8, [&](int thread) {
      Iterator own = std::move(made[static_cast<size_t>(thread)]);
      own.SeekToLast();
      EXPECT_EQ(VersionAt(&own), 1u);
    });
  }
  EXPECT_EQ(view_count(), 0u);
}

class ClosedStoreTest : public ::testing::TestWithParam<bool> {};

TEST_P(ClosedStoreTest, WhatIsLeftSaysSoAndGoesAway) {
  std::vector<Iterator> left(6);
  Snapshot snapshot;
  Snapshot released_elsewhere;
  {
    IteratorStore store;
    store.options.cache_iterators = GetParam();
    store.Fill(2000);
    store.OpenPool();
    store.New();  // one that waits in the cache
    IteratorOptions prefetching;
    prefetching.prefetch_records = 64;
    for (size_t i = 0; i < left.size(); ++i) {
      left[i] = store.New(i % 2 == 0 ? IteratorOptions() : prefetching);
      left[i].Seek(KeyOf(store.model.begin()->first));
      EXPECT_EQ(VersionAt(&left[i]), 1u);
      left[i].Next();
    }
    snapshot = store.TakeSnapshot();
    released_elsewhere = store.TakeSnapshot();
  }
  for (Iterator& iterator : left) {
    EXPECT_FALSE(iterator.Valid());
    EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument);
    EXPECT_NE(iterator.status().message().find("closed"), std::string::npos);
  }
  left[0].Next();
  left[1].Prev();
  EXPECT_TRUE(left[1].value().empty());
  EXPECT_TRUE(left[2].value().empty());
  left[2].SeekToFirst();
  left[3].SeekForPrev(KeyOf(5));
  EXPECT_EQ(left[4].Refresh().code(), Code::kInvalidArgument);
  EXPECT_EQ(left[5].RefreshKeepPosition(snapshot).code(), Code::kInvalidArgument);
  for (Iterator& iterator : left) {
    EXPECT_FALSE(iterator.Valid());
    EXPECT_EQ(iterator.status().code(), Code::kInvalidArgument);
  }
  IteratorStore other;
  other.Fill(10);
  other.OpenPool();
  IteratorOptions options;
  options.snapshot = &snapshot;
  Iterator iterator = other.New();
  EXPECT_EQ(other.pool->New(options, &iterator).code(), Code::kInvalidArgument);
  EXPECT_EQ(iterator.Refresh(snapshot).code(), Code::kInvalidArgument);
  EXPECT_EQ(other.pool->Scan(snapshot, {}, [](std::string_view, std::string_view) {}).code(),
            Code::kInvalidArgument);
  std::thread([&] {
    released_elsewhere.Release();
    left.resize(3);
  }).join();
  // Assigning over one that is left behind lets go of it as well.
  left[0] = other.New();
  left[0].SeekToFirst();
  EXPECT_EQ(VersionAt(&left[0]), 1u);
}

INSTANTIATE_TEST_SUITE_P(Caches, ClosedStoreTest, ::testing::Bool());

}  // namespace
}  // namespace engine_race::test
