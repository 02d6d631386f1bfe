// Snapshots and iterators of a whole store beside its writers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>

#include "test/e2e/engine_fixture.h"
#include "test/eventually.h"

namespace engine_race::test {
namespace {

using Rng = std::mt19937_64;

// What a writer's keys hold: the numbers of the writes that are there, 0 for none.
constexpr uint32_t kKeysPerWriter = 48;
using Held = std::array<uint64_t, kKeysPerWriter>;

// Each writer's writes are numbered from 1, one after the other, over keys of its own that lie in
// all buckets; what a number does follows from it. So a state of the store is right when it is what
// some number of each writer's writes makes, the first ones without a gap: not fewer than were
// acknowledged before the snapshot was begun, nor more than had begun when it was there.
class CutChecker {
 public:
  static constexpr uint32_t kWriters = 4;

  static uint64_t KeyOfWriter(uint32_t writer, uint32_t i) {
    return (uint64_t{i} * kWriters + writer) * (~uint64_t{0} / (kKeysPerWriter * kWriters));
  }

  void Write(Store* store, uint32_t writer) {
    const uint64_t number = started_[writer].load() + 1;
    started_[writer].store(number);
    const uint64_t key = KeyOfWriter(writer, Target(writer, number));
    const Status status = IsDelete(writer, number) ? store->Delete(KeyOf(key))
                                                   : store->Write(KeyOf(key), ValueOf(key, number));
    ASSERT_TRUE(status.ok()) << status.ToString();
    acknowledged_[writer].store(number);
  }

  // How many writes a cut may hold of each writer.
  struct Limits {
    std::array<uint64_t, kWriters> low = {};
    std::array<uint64_t, kWriters> high = {};
  };
  void Before(Limits* limits) const {
    for (uint32_t w = 0; w < kWriters; ++w) limits->low[w] = acknowledged_[w].load();
  }
  void After(Limits* limits) const {
    for (uint32_t w = 0; w < kWriters; ++w) limits->high[w] = started_[w].load();
  }

  // Narrows the limits to the cut that `seen` is; fails when it is none.
  void Expect(const Versions& seen, Limits* limits) const {
    std::map<uint64_t, uint64_t> rest(seen.begin(), seen.end());
    ASSERT_EQ(rest.size(), seen.size()) << "a key twice";
    for (uint32_t w = 0; w < kWriters; ++w) {
      Held held = {};
      for (uint32_t i = 0; i < kKeysPerWriter; ++i) {
        const auto found = rest.find(KeyOfWriter(w, i));
        if (found == rest.end()) continue;
        held[i] = found->second;
        rest.erase(found);
      }
      ExpectPrefix(w, held, limits);
    }
    ASSERT_TRUE(rest.empty()) << "a key that nobody wrote";
  }

 private:
  static uint64_t Hash(uint32_t writer, uint64_t number) {
    const uint64_t word = (number * kWriters + writer + 1) * 0x9e3779b97f4a7c15;
    return (word ^ (word >> 32)) * 0xd6e8feb86659fd93;
  }
  static uint32_t Target(uint32_t writer, uint64_t number) {
    return static_cast<uint32_t>((Hash(writer, number) >> 32) % kKeysPerWriter);
  }
  static bool IsDelete(uint32_t writer, uint64_t number) { return Hash(writer, number) % 5 == 0; }

  void ExpectPrefix(uint32_t writer, const Held& held, Limits* limits) const {
    Held replayed = {};
    for (uint64_t number = 1; number <= limits->low[writer]; ++number) {
      Replay(writer, number, &replayed);
    }
    uint64_t cut = limits->low[writer];
    while (replayed != held && cut < limits->high[writer]) Replay(writer, ++cut, &replayed);
    ASSERT_EQ(replayed, held) << "no number of writes of writer " << writer << " from "
                              << limits->low[writer] << " to " << limits->high[writer];
    // The same each time: later looks may find a longer row of writes equal, never this one not.
    limits->low[writer] = limits->high[writer] = cut;
  }
  static void Replay(uint32_t writer, uint64_t number, Held* held) {
    (*held)[Target(writer, number)] = IsDelete(writer, number) ? 0 : number;
  }

  std::array<std::atomic<uint64_t>, kWriters> started_ = {};
  std::array<std::atomic<uint64_t>, kWriters> acknowledged_ = {};
};

Versions Walk(Iterator* iterator, bool forward) {
  Versions seen;
  forward ? iterator->SeekToFirst() : iterator->SeekToLast();
  while (iterator->Valid()) {
    const uint64_t key = DecodeKey(iterator->key().data());
    uint64_t version = 0;
    EXPECT_TRUE(ParseValue(key, iterator->value(), &version)) << "wrong bytes under key " << key;
    seen.emplace_back(key, version);
    forward ? iterator->Next() : iterator->Prev();
  }
  EXPECT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  if (!forward) std::reverse(seen.begin(), seen.end());
  return seen;
}

Versions RangeAt(Store* store, const Snapshot& snapshot) {
  Versions seen;
  const Status status = store->Range(
      snapshot, "", "",
      [&](std::string_view key, std::string_view value) { AddVisit(key, value, &seen); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return seen;
}

Versions ReadAt(Store* store, const Snapshot& snapshot) {
  Versions seen;
  for (uint32_t i = 0; i < kKeysPerWriter; ++i) {
    for (uint32_t w = 0; w < CutChecker::kWriters; ++w) {
      const uint64_t key = CutChecker::KeyOfWriter(w, i);
      std::string value;
      const Status status = store->Read(snapshot, KeyOf(key), &value);
      if (status.code() == Code::kNotFound) continue;
      EXPECT_TRUE(status.ok()) << status.ToString();
      AddVisit(KeyOf(key), value, &seen);
    }
  }
  return seen;
}

// One snapshot looked at in every way, some of them long after.
void CheckSnapshot(Store* store, CutChecker* checker, Rng& rng) {
  CutChecker::Limits limits;
  checker->Before(&limits);
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  checker->After(&limits);
  IteratorOptions options;
  options.snapshot = &snapshot;
  options.prefetch_records = rng() % 3 == 0 ? 32 : 0;
  Iterator iterator;
  ASSERT_TRUE(store->NewIterator(options, &iterator).ok());
  std::vector<uint32_t> ways = {0, 1, 2, 3, 0, 1};
  std::shuffle(ways.begin(), ways.end(), rng);
  if (rng() % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(rng() % 4));
  for (const uint32_t way : ways) {
    if (way == 3 && !snapshot.is_taken()) continue;
    checker->Expect(way == 2   ? RangeAt(store, snapshot)
                    : way == 3 ? ReadAt(store, snapshot)
                               : Walk(&iterator, way == 0),
                    &limits);
    if (::testing::Test::HasFatalFailure()) return;
  }
  // The iterator's view is its own.
  snapshot.Release();
  checker->Expect(Walk(&iterator, rng() % 2 == 0), &limits);
}

// One iterator, kept and refreshed.
void CheckRefreshed(CutChecker* checker, Iterator* kept, Rng& rng) {
  CutChecker::Limits limits;
  checker->Before(&limits);
  const Status status = rng() % 2 == 0 ? kept->Refresh() : kept->RefreshKeepPosition();
  ASSERT_TRUE(status.ok()) << status.ToString();
  checker->After(&limits);
  for (int i = 0; i < 3; ++i) {
    checker->Expect(Walk(kept, rng() % 2 == 0), &limits);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void RunCuts(const Options& options, bool read_before, uint64_t write_count) {
  TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), options);
  CutChecker checker;
  if (read_before) ExpectHolds(store.get(), {});
  std::atomic<uint32_t> writing{CutChecker::kWriters};
  constexpr uint32_t kCheckers = 3;
  RunThreads(CutChecker::kWriters + kCheckers, [&](uint32_t t) {
    if (t < CutChecker::kWriters) {
      for (uint64_t i = 0; i < write_count; ++i) checker.Write(store.get(), t);
      --writing;
      return;
    }
    Rng rng(t);
    Iterator kept;
    ASSERT_TRUE(store->NewIterator({}, &kept).ok());
    // Once more after the last write.
    for (bool last = false; !last && !::testing::Test::HasFailure();) {
      last = writing.load() == 0;
      CheckSnapshot(store.get(), &checker, rng);
      CheckRefreshed(&checker, &kept, rng);
    }
  });
  EXPECT_EQ(store->Stats().view_count, 0u);
}

TEST(SnapshotTest, EveryIteratorShowsOneCutBesideWriters) {
  Options options = TinyOptions();
  RunCuts(options, true, Sized(15000, 1500));
  // Of one bucket, and with the index built while writes come in.
  options.bucket_count = options.file_count = 1;
  RunCuts(options, false, Sized(10000, 1000));
  options.bucket_count = 64;
  options.file_count = 4;
  options.cache_iterators = false;
  RunCuts(options, true, Sized(10000, 1000));
}

// A writer that begins after another's write was acknowledged is in no state without it: who reads
// B at a snapshot finds the A that was there before.
TEST(SnapshotTest, WhatWasWrittenAfterIsNeverThereWithoutWhatCameBefore) {
  TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), TinyOptions());
  constexpr uint32_t kChain = 4;  // threads, each with a key of a bucket of its own
  const auto key_of = [](uint32_t t) { return (uint64_t{kChain - 1 - t} << 62) + 5; };
  const uint64_t round_count = Sized(1000, 200);
  std::atomic<uint64_t> turn{0};
  std::atomic<bool> done{false};
  RunThreads(kChain + 2, [&](uint32_t t) {
    if (t < kChain) {
      for (uint64_t round = 1; round <= round_count; ++round) {
        while (turn.load() != (round - 1) * kChain + t) std::this_thread::yield();
        const Status status = store->Write(KeyOf(key_of(t)), ValueOf(key_of(t), round));
        EXPECT_TRUE(status.ok()) << status.ToString();
        turn.store((round - 1) * kChain + t + 1);
      }
      if (t == kChain - 1) done = true;
      return;
    }
    Iterator iterator;
    ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
    while (!done.load()) {
      const uint64_t least = turn.load();
      ASSERT_TRUE(iterator.Refresh().ok());
      std::array<uint64_t, kChain> versions = {};
      for (uint32_t i = 0; i < kChain; ++i) {
        iterator.Seek(KeyOf(key_of(i)));
        if (!iterator.Valid() || iterator.key() != KeyOf(key_of(i))) continue;
        ASSERT_TRUE(ParseValue(key_of(i), iterator.value(), &versions[i]));
      }
      // As many rounds of the first as of the last, or one more.
      ASSERT_TRUE(std::is_sorted(versions.rbegin(), versions.rend()));
      ASSERT_LE(versions.front(), versions.back() + 1);
      const uint64_t count = versions[0] + versions[1] + versions[2] + versions[3];
      ASSERT_GE(count, least);
    }
  });
}

TEST(SnapshotTest, StatsShowViewsAndMemory) {
  TempDir dir(FastParent());
  Options options = TinyOptions();
  const auto store = OpenStore(dir.path(), options);
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(store->Write(KeyOf(i << 53), ValueOf(i << 53, 1)).ok());
  }
  EXPECT_EQ(store->Stats().view_count, 0u);
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  Iterator iterator;
  ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
  EXPECT_EQ(store->Stats().view_count, 2u);
  EXPECT_TRUE(Eventually([&store] { return store->Stats().oldest_view_age_ms > 1; }));
  for (uint64_t round = 2; round < 6; ++round) {
    for (uint64_t i = 0; i < 2000; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i << 53), ValueOf(i << 53, round)).ok());
    }
  }
  EXPECT_GT(store->Stats().view_pinned_bytes, 0u);
  EXPECT_LT(store->Stats().view_pinned_bytes, 2000u * 100);
  iterator.SeekToFirst();
  EXPECT_EQ(iterator.value().size(), kValueBytes);
  iterator.Release();
  EXPECT_GT(store->Stats().iterator_memory_bytes, uint64_t{kValueBytes});
  snapshot.Release();
  EXPECT_EQ(store->Stats().view_count, 0u);
  EXPECT_EQ(store->Stats().oldest_view_age_ms, 0u);
  // Without views nothing stays pinned, and no further call is needed for that.
  EXPECT_TRUE(Eventually([&store] { return store->Stats().view_pinned_bytes == 0; }));
}

}  // namespace
}  // namespace engine_race::test
