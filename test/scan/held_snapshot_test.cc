// One snapshot held while a million overwrites and deletes pass, beside a stream of short ones.
//
// The store is in memory, and the room of values that nobody can see any more is given back to the
// file system meanwhile: a million would fill four gigabytes.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>

#include "test/scan/iterator_test_util.h"

namespace engine_race::test {
namespace {

class HeldSnapshotTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBuckets = 4;
  static constexpr uint32_t kWriters = 4;
  static constexpr uint64_t kKeysEach = 1250;
  // As many writes of a bucket are certain to hold the newest of each key: no writer is more than a
  // round ahead of another, and a round is kKeysEach writes to each bucket.
  static constexpr uint64_t kNewestSlots = 4 * kKeysEach;

  HeldSnapshotTest() : store_(kBuckets) {
    for (uint32_t w = 0; w < kWriters; ++w) {
      for (uint64_t i = 0; i < kKeysEach; ++i) store_.Put(KeyOfWriter(w, i));
    }
    store_.OpenPool();
    first_ = store_.model;
    for (uint32_t b = 0; b < kBuckets; ++b) first_counts_[b] = store_.log->RecordCount(b);
  }

  static uint64_t KeyOfWriter(uint32_t writer, uint64_t i) {
    return (i * kWriters + writer) * (~uint64_t{0} / (kWriters * kKeysEach));
  }

  // Round after round over the writer's keys, versions from 2.
  void Overwrite(uint32_t writer, uint64_t rounds) {
    std::string value(kValueBytes, '\0');
    for (uint64_t version = 2; version < rounds + 2; ++version) {
      for (uint64_t i = 0; i < kKeysEach; ++i) {
        const uint64_t key = KeyOfWriter(writer, i);
        const bool is_delete = (version * 7 + i) % 16 == 0;
        if (!is_delete) FillValue(key, version, value.data());
        const Status status = store_.log->Append(key, is_delete ? nullptr : value.data());
        if (!status.ok()) {
          ADD_FAILURE() << status.ToString();
          return round_end_.arrive_and_drop();
        }
      }
      round_end_.arrive_and_wait();
    }
  }
  void ModelOverwrites(uint64_t rounds) {
    for (uint32_t w = 0; w < kWriters; ++w) {
      for (uint64_t i = 0; i < kKeysEach; ++i) {
        const uint64_t version = rounds + 1;
        if ((version * 7 + i) % 16 == 0) {
          store_.model.erase(KeyOfWriter(w, i));
        } else {
          store_.model[KeyOfWriter(w, i)] = version;
        }
      }
    }
  }

  // Between what the held snapshot shows and what is newest.
  void GiveBackRoom() {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      const uint64_t logged = store_.log->LoggedValueWatermark(b);
      if (logged < first_counts_[b] + 2 * kNewestSlots) continue;
      const SlotLocation begin = store_.log->slots().LocateValues(b, first_counts_[b]);
      const SlotLocation end = store_.log->slots().LocateValues(b, logged - kNewestSlots);
      ASSERT_EQ(::fallocate(begin.file->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(begin.offset),
                            static_cast<off_t>(end.offset - begin.offset)),
                0);
    }
  }

  IteratorStore store_;
  State first_;
  std::array<uint64_t, kBuckets> first_counts_ = {};
  std::barrier<> round_end_{kWriters};
};

TEST_F(HeldSnapshotTest, AMillionOverwritesAndDeletesPass) {
  const uint64_t rounds = Sized(1'000'000, 40'000) / (kWriters * kKeysEach);
  Snapshot snapshot = store_.TakeSnapshot();
  IteratorOptions options;
  options.snapshot = &snapshot;
  options.prefetch_records = 32;
  std::atomic<uint32_t> writing{kWriters};
  RunThreads(kWriters + 3, [&](int thread) {
    const auto t = static_cast<uint32_t>(thread);
    if (t < kWriters) {
      Overwrite(t, rounds);
      --writing;
    } else if (t == kWriters) {
      while (writing.load() > 0 && !HasFatalFailure()) {
        GiveBackRoom();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    } else if (t == kWriters + 1) {
      Iterator iterator = store_.New(options);
      while (writing.load() > 0 && !HasFatalFailure()) {
        ASSERT_TRUE(WalkForward(&iterator) == Listed(first_));
        ASSERT_TRUE(WalkBackward(&iterator) == Listed(first_));
      }
    } else {
      // Short ones, looked at by their keys alone.
      uint64_t count = 0;
      while (writing.load() > 0) {
        Iterator iterator = store_.New();
        for (iterator.Seek(KeyOf(SpreadKey(++count))); iterator.Valid(); iterator.Next()) {
          if (KeyAt(iterator) % 64 == 0) break;
        }
        EXPECT_TRUE(iterator.status().ok());
      }
    }
  });
  if (HasFatalFailure()) return;
  // At most one old version of each key, whatever was written.
  EXPECT_LE(store_.index->pinned_bytes(), first_.size() * 200);
  EXPECT_GE(store_.index->pinned_bytes(), first_.size() * 16);
  Iterator iterator = store_.New(options);
  ExpectShows(&iterator, first_);
  uint64_t visits = 0;
  auto next = first_.begin();
  const Status status =
      store_.pool->Scan(snapshot, {}, [&](std::string_view key_bytes, std::string_view value) {
        const uint64_t key = DecodeKey(key_bytes.data());
        uint64_t version = 0;
        EXPECT_TRUE(key == next->first && ParseValue(key, value, &version));
        EXPECT_EQ(version, 1u);
        ++next;
        ++visits;
      });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(visits, first_.size());
  ModelOverwrites(rounds);
  ASSERT_TRUE(iterator.Refresh().ok());
  ExpectShows(&iterator, store_.model);
  iterator.Release();
  snapshot.Release();
  EXPECT_LE(store_.index->pinned_bytes(), first_.size() * 200);
  EXPECT_EQ(store_.index->views().TakeCensus().count, 0u);
}

}  // namespace
}  // namespace engine_race::test
