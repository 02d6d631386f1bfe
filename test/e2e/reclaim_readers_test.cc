// Readers, snapshots and iterators of a store whose slots are used again meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "test/e2e/reclaim_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

Versions RangeAt(Store* store, const Snapshot& snapshot) {
  Versions seen;
  const Status status = store->Range(
      snapshot, "", "",
      [&](std::string_view key, std::string_view value) { AddVisit(key, value, &seen); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return seen;
}

// Adds up to `limit` records from where the iterator is.
void WalkOn(Iterator* iterator, uint64_t limit, bool forward, Versions* seen) {
  for (uint64_t i = 0; i < limit && iterator->Valid(); ++i) {
    const uint64_t key = DecodeKey(iterator->key().data());
    uint64_t version = 0;
    ASSERT_TRUE(ParseValue(key, iterator->value(), &version)) << "wrong bytes under key " << key;
    seen->emplace_back(key, version);
    forward ? iterator->Next() : iterator->Prev();
  }
  ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
}

// Expects these records of a view, by every kind of read.
void ExpectShows(Store* store, const Snapshot& snapshot, const Versions& wanted,
                 uint64_t key_count) {
  EXPECT_TRUE(RangeAt(store, snapshot) == wanted) << "Range differs";
  const std::map<uint64_t, uint64_t> versions(wanted.begin(), wanted.end());
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < key_count; ++i) keys.push_back(SpreadKey(i));
  std::string rows(keys.size() * kValueBytes, '\0');
  std::vector<Code> codes(keys.size(), Code::kIncomplete);
  ASSERT_TRUE(store->MultiReadInto(snapshot, keys, rows.data(), codes).ok());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = versions.find(keys[i]);
    const Code code = found == versions.end() ? Code::kNotFound : Code::kOk;
    ASSERT_EQ(codes[i], code) << "key " << i;
    std::string value;
    ASSERT_EQ(store->Read(snapshot, KeyBytes(keys[i]).view(), &value).code(), code) << i;
    if (code != Code::kOk) continue;
    const std::string right = ValueOf(keys[i], found->second);
    ASSERT_TRUE(value == right) << "Read of key " << i;
    ASSERT_TRUE(std::string_view(rows).substr(i * kValueBytes, kValueBytes) == right)
        << "MultiRead of key " << i;
  }
}

class ReclaimViewsTest : public ReclaimTest {
 protected:
  static constexpr uint64_t kKeys = 1500;

  Versions Held() const { return {held_.begin(), held_.end()}; }
  // Overwrites and deletes so much that the buckets are filled several times.
  void Churn(uint64_t round_count, uint64_t* version) {
    std::mt19937_64 random(*version);
    for (uint64_t round = 0; round < round_count; ++round) {
      ++*version;
      for (uint64_t n = 0; n < kKeys; ++n) {
        const uint64_t i = random() % kKeys;
        if (random() % 8 == 0) {
          ASSERT_NO_FATAL_FAILURE(Delete(i));
        } else {
          ASSERT_NO_FATAL_FAILURE(Write(i, *version));
        }
      }
    }
  }
};

// The views hold what they show, and nothing that was written later.
TEST_F(ReclaimViewsTest, ASnapshotAndAnIteratorAreHeldThroughAllOfIt) {
  // The views keep all rows that are in use when they are taken.
  SetRegions(16);
  ASSERT_NO_FATAL_FAILURE(Open());
  uint64_t version = 1;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, version));
  ASSERT_NO_FATAL_FAILURE(Churn(3, &version));
  const Versions old = Held();
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  Iterator iterator;
  ASSERT_TRUE(store_->NewIterator({}, &iterator).ok());
  iterator.SeekToFirst();
  Versions walked;
  const uint64_t kRounds = Sized(PartOf(20, 2), 10);
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(WalkOn(&iterator, old.size() / kRounds, /*forward=*/true, &walked));
    ASSERT_NO_FATAL_FAILURE(Churn(11, &version));
    ASSERT_NO_FATAL_FAILURE(ExpectShows(store_.get(), snapshot, old, kKeys));
    if (round % 5 == 4) {
      ASSERT_NO_FATAL_FAILURE(Compact());
      ASSERT_NO_FATAL_FAILURE(ExpectShows(store_.get(), snapshot, old, kKeys));
    }
  }
  EXPECT_GT(store_->Stats().reclaim_freed_bytes, slot_count() * kValueBytes) << "slots came again";
  ASSERT_NO_FATAL_FAILURE(WalkOn(&iterator, old.size(), /*forward=*/true, &walked));
  EXPECT_TRUE(walked == old) << "the walk differs";
  iterator.SeekToLast();
  Versions back;
  ASSERT_NO_FATAL_FAILURE(WalkOn(&iterator, old.size() + 1, /*forward=*/false, &back));
  std::reverse(back.begin(), back.end());
  EXPECT_TRUE(back == old) << "the walk back differs";
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  snapshot = Snapshot();
  iterator = Iterator();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Each view is of another time: slots are used again when the last view goes that shows a record
// of theirs.
TEST_F(ReclaimViewsTest, ViewsComeAndGoInAnyOrder) {
  SetRegions(32);
  ASSERT_NO_FATAL_FAILURE(Open());
  uint64_t version = 1;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, version));
  struct View {
    Snapshot snapshot;
    Versions wanted;
  };
  std::vector<View> views;
  std::mt19937_64 random(11);
  for (uint64_t round = 0; round < Sized(PartOf(60, 2), 30); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    if (views.size() < 4) {
      views.emplace_back();
      ASSERT_TRUE(store_->GetSnapshot(&views.back().snapshot).ok());
      views.back().wanted = Held();
    }
    ASSERT_NO_FATAL_FAILURE(Churn(1, &version));
    if (round % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(Compact());
    }
    View& view = views[random() % views.size()];
    ASSERT_NO_FATAL_FAILURE(ExpectShows(store_.get(), view.snapshot, view.wanted, kKeys));
    if (random() % 2 == 0) {
      std::swap(view, views.back());
      views.pop_back();
    }
  }
  for (const View& view : views) {
    ASSERT_NO_FATAL_FAILURE(ExpectShows(store_.get(), view.snapshot, view.wanted, kKeys));
  }
  views.clear();
  EXPECT_GT(store_->Stats().reclaim_freed_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Records that a view shows take room until the view is released.
TEST_F(ReclaimViewsTest, ARegionFullOfWhatASnapshotShowsTakesWritesWhenItIsReleased) {
  SetRegions(4);
  constexpr uint64_t kFew = 400;
  ASSERT_NO_FATAL_FAILURE(Open());
  uint64_t version = 0;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kFew, ++version));
  std::vector<Snapshot> snapshots;
  std::vector<Versions> wanted;
  Status status;
  while (status.ok() && version < 100) {
    snapshots.emplace_back();
    ASSERT_TRUE(store_->GetSnapshot(&snapshots.back()).ok());
    wanted.push_back(Held());
    ++version;
    for (uint64_t i = 0; i < kFew && status.ok(); ++i) {
      status = TryWrite(i, version);
      if (status.ok()) held_[SpreadKey(i)] = version;
    }
  }
  ASSERT_EQ(status.code(), Code::kFull) << status.ToString();
  for (size_t n = 0; n < snapshots.size(); ++n) {
    ASSERT_NO_FATAL_FAILURE(ExpectShows(store_.get(), snapshots[n], wanted[n], kFew));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  snapshots.clear();
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, kFew, ++version));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Whether values are verified, where they may come from, and whether the index is in memory.
enum class Memory { kNone, kHotValues, kPagedIndex };

class ReclaimReadersTest : public ReclaimTest,
                           public ::testing::WithParamInterface<std::tuple<bool, Memory>> {
 protected:
  static constexpr uint64_t kKeys = 600;
  static constexpr uint64_t kBatch = 40;

  void SetUp() override {
    // 8192 slots, that are used again every fourteen rounds.
    SetRegions(8);
    options_.verify_checksums = std::get<0>(GetParam());
    const Memory memory = std::get<1>(GetParam());
    options_.hot_value_bytes = memory == Memory::kNone ? 0 : 8 << 20;
    if (memory == Memory::kPagedIndex) {
      options_.index_memory_bytes = 0;
      options_.index_idle_ms = 1;
    }
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 1));
    for (auto& acknowledged : acknowledged_) acknowledged = 1;
  }

  // A value that a read which began when `oldest` was acknowledged may find.
  void ExpectRight(uint64_t i, std::string_view value, uint64_t oldest) {
    uint64_t version = 0;
    ASSERT_TRUE(ParseValue(SpreadKey(i), value, &version)) << "wrong bytes under key " << i;
    ASSERT_GE(version, oldest) << "an old value of key " << i;
    ASSERT_LE(version, newest_.load()) << "key " << i;
  }

  // The keys of the writer's rounds, one version each.
  void WriteRounds(uint64_t round_count) {
    for (uint64_t version = 2; version < 2 + round_count; ++version) {
      newest_ = version;
      std::vector<uint64_t> order;
      for (uint64_t i = 0; i < kKeys; ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), std::mt19937_64(version));
      for (const uint64_t i : order) {
        ASSERT_NO_FATAL_FAILURE(Write(i, version));
        acknowledged_[i] = version;
      }
    }
  }

  void ReadSome(std::mt19937_64* random) {
    for (uint64_t n = 0; n < kBatch; ++n) {
      const uint64_t i = (*random)() % kKeys;
      const uint64_t oldest = acknowledged_[i];
      std::string value;
      const Status status = store_->Read(KeyBytes(SpreadKey(i)).view(), &value);
      ASSERT_TRUE(status.ok()) << "key " << i << ": " << status.ToString();
      ASSERT_NO_FATAL_FAILURE(ExpectRight(i, value, oldest));
    }
  }
  void MultiReadSome(std::mt19937_64* random) {
    std::vector<uint64_t> numbers;
    std::vector<uint64_t> oldest;
    std::vector<uint64_t> keys;
    for (uint64_t n = 0; n < kBatch; ++n) {
      numbers.push_back((*random)() % kKeys);
      oldest.push_back(acknowledged_[numbers.back()]);
      keys.push_back(SpreadKey(numbers.back()));
    }
    std::string rows(kBatch * kValueBytes, '\0');
    std::vector<Code> codes(kBatch, Code::kIncomplete);
    ASSERT_TRUE(store_->MultiReadInto(keys, rows.data(), codes).ok());
    for (uint64_t n = 0; n < kBatch; ++n) {
      ASSERT_EQ(codes[n], Code::kOk) << "key " << numbers[n];
      ASSERT_NO_FATAL_FAILURE(ExpectRight(
          numbers[n], std::string_view(rows).substr(n * kValueBytes, kValueBytes), oldest[n]));
    }
  }
  void ReadAsyncSome(std::mt19937_64* random) {
    struct Asked {
      uint64_t number = 0;
      uint64_t oldest = 0;
      std::string value;
      Status status;
    };
    std::vector<Asked> asked(kBatch);
    std::mutex mutex;
    std::condition_variable done;
    uint64_t done_count = 0;
    for (Asked& each : asked) {
      each.number = (*random)() % kKeys;
      each.oldest = acknowledged_[each.number];
      ASSERT_TRUE(store_
                      ->ReadAsync(KeyBytes(SpreadKey(each.number)).view(), &each.value,
                                  [&, answer = &each](const Status& status) {
                                    const std::lock_guard<std::mutex> lock(mutex);
                                    answer->status = status;
                                    ++done_count;
                                    done.notify_one();
                                  })
                      .ok());
    }
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, [&] { return done_count == kBatch; });
    for (const Asked& each : asked) {
      ASSERT_TRUE(each.status.ok()) << "key " << each.number << ": " << each.status.ToString();
      ASSERT_NO_FATAL_FAILURE(ExpectRight(each.number, each.value, each.oldest));
    }
  }
  void RangeAll() {
    std::map<uint64_t, uint64_t> numbers;
    std::vector<uint64_t> oldest;
    for (uint64_t i = 0; i < kKeys; ++i) {
      numbers[SpreadKey(i)] = i;
      oldest.push_back(acknowledged_[i]);
    }
    auto next = numbers.begin();
    const Status status = store_->Range("", "", [&](std::string_view key, std::string_view value) {
      ASSERT_NE(next, numbers.end());
      ASSERT_EQ(DecodeKey(key.data()), next->first);
      ASSERT_NO_FATAL_FAILURE(ExpectRight(next->second, value, oldest[next->second]));
      ++next;
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(next, numbers.end()) << "keys are missing";
  }

  std::atomic<uint64_t> newest_{1};
  // By number of the key: the version of its last write that was acknowledged.
  std::array<std::atomic<uint64_t>, kKeys> acknowledged_ = {};
};

TEST_P(ReclaimReadersTest, EveryReadFindsARightValue) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  const auto start = [&](auto read) {
    readers.emplace_back([this, &stop, read, seed = readers.size()] {
      std::mt19937_64 random(seed);
      while (!stop && !HasFatalFailure()) read(&random);
    });
  };
  start([this](std::mt19937_64* random) { ReadSome(random); });
  start([this](std::mt19937_64* random) { MultiReadSome(random); });
  start([this](std::mt19937_64* random) { ReadAsyncSome(random); });
  start([this](std::mt19937_64*) { RangeAll(); });
  WriteRounds(PartOf(Sized(100, 40), 2));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(store_->Stats().reclaim_freed_bytes, slot_count() * kValueBytes) << "slots came again";
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<bool, Memory>>& info) {
  const Memory memory = std::get<1>(info.param);
  const std::string verified = std::get<0>(info.param) ? "Verified" : "Unverified";
  if (memory == Memory::kNone) return verified + "FromLogs";
  return verified + (memory == Memory::kHotValues ? "HotValues" : "PagedIndex");
}

INSTANTIATE_TEST_SUITE_P(Stores, ReclaimReadersTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(Memory::kNone, Memory::kHotValues,
                                                              Memory::kPagedIndex)),
                         NameOf);

}  // namespace
}  // namespace engine_race::test
