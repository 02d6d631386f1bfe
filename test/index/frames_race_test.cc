// Frames under everything at once: reads inside an epoch and outside it, writes, merges, swizzling
// and eviction. A frame that a reader has found does not change until the reader leaves. It has a
// record of its key that is no older than what was acknowledged before the read.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/frames_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::Unswizzled;

class Race {
 public:
  static constexpr uint32_t kFrames = 24;
  static constexpr size_t kHotReaders = 2;
  static constexpr size_t kMovers = 2;

  Race(uint64_t seed, uint64_t key_space, uint32_t write_count, size_t split_keys)
      : seed_(seed),
        key_space_(key_space),
        slot_count_(static_cast<uint32_t>(key_space) + write_count),
        buckets_(1, split_keys),
        slots_(kFrames),
        frames_(kFrames),
        key_of_(slot_count_),
        newest_(key_space) {
    index().set_frame_slots(slots_.data());
    std::vector<KeyRecord> installed;
    for (uint32_t slot = 0; slot < key_space; ++slot) {
      installed.push_back(test::RecordInSlot(slot, slot));
      key_of_[slot] = slot;
      newest_[slot] = State(slot, false);
    }
    buckets_.Install(installed);
  }

  // Runs until all records are written and the frames were moved often enough.
  void Run() {
    std::vector<std::thread> threads;
    threads.emplace_back([this] { Write(); });
    for (size_t i = 0; i < kMovers; ++i) threads.emplace_back([this, i] { MoveFrames(i); });
    for (size_t i = 0; i < kHotReaders; ++i) threads.emplace_back([this, i] { ReadHot(i); });
    threads.emplace_back([this] { ReadSlots(); });
    for (std::thread& thread : threads) thread.join();
    for (uint64_t key = 0; key < key_space_; ++key) {
      ValueRef ref;
      const bool found = index().FindHot(key, &ref) == Code::kOk;
      ASSERT_FALSE(found && ref.hot()) << "key " << key << " leads to a frame that was evicted";
    }
  }

 private:
  // The compared part of a value; every part of it is the number of its slot.
  struct Frame {
    std::array<uint32_t, 16> value = {};
    uint64_t key = 0;
  };
  static constexpr uint64_t State(uint32_t slot, bool tombstone) {
    return uint64_t{slot} << 1 | uint64_t{tombstone};
  }

  BucketIndex& index() { return buckets_.bucket(); }
  bool IsWriting() const { return !written_.load(std::memory_order_acquire); }
  // Acquire: the record was in the index before.
  uint64_t Newest(uint64_t key) const { return newest_[key].load(std::memory_order_acquire); }

  void Write() {
    std::mt19937_64 random(seed_);
    // First all threads use the bucket as it was installed.
    while (swizzled_.load() < 10 * kFrames) std::this_thread::yield();
    for (auto slot = static_cast<uint32_t>(key_space_); slot < slot_count_; ++slot) {
      const uint64_t key = random() % key_space_;
      const bool tombstone = random() % 16 == 0;
      key_of_[slot].store(key, std::memory_order_relaxed);
      writing_.store(key, std::memory_order_release);
      buckets_.Write(key, slot, tombstone);
      newest_[key].store(State(slot, tombstone), std::memory_order_release);
      // The lock prefers writers, so without a pause now and then no other thread would get it.
      if (slot % 256 != 0) continue;
      const uint64_t wanted = swizzled_.load(std::memory_order_relaxed) + 4;
      while (swizzled_.load(std::memory_order_relaxed) < wanted) std::this_thread::yield();
    }
    written_.store(true, std::memory_order_release);
  }

  void ExpectRecord(uint64_t key, uint32_t slot, uint64_t before) {
    ASSERT_LT(slot, slot_count_);
    ASSERT_EQ(key_of_[slot].load(std::memory_order_relaxed), key);
    ASSERT_GE(slot, before >> 1) << "key " << key << " was newer before";
  }
  void ExpectNothing(uint64_t key, uint64_t before) {
    // The tombstone may be in the index already. Acquire: all that was written before is in
    // newest_.
    if (writing_.load(std::memory_order_acquire) == key) return;
    const bool was_there = (before & 1) == 0;
    ASSERT_FALSE(was_there && Newest(key) == before) << key;
  }

  void ReadHot(size_t number) {
    std::mt19937_64 random(seed_ + 100 + number);
    while (IsWriting()) {
      const uint64_t key = random() % key_space_;
      const uint64_t before = Newest(key);
      const l1::EpochManager::Guard guard(epochs_);
      ValueRef ref;
      if (index().FindHot(key, &ref) != Code::kOk) {
        ASSERT_NO_FATAL_FAILURE(ExpectNothing(key, before));
        continue;
      }
      if (!ref.hot()) {
        ASSERT_NO_FATAL_FAILURE(ExpectRecord(key, ref.slot(), before));
        continue;
      }
      const Frame& frame = frames_[ref.frame()];
      const uint32_t slot = frame.value[0];
      ASSERT_NO_FATAL_FAILURE(ExpectRecord(key, slot, before));
      ASSERT_EQ(slot & 0xffff, ref.value_checksum());
      if (random() % 4 == 0) std::this_thread::yield();
      for (const uint32_t part : frame.value) ASSERT_EQ(part, slot) << "used again meanwhile";
      if (ref.cooling()) index().Heat(key, ref.frame());
    }
  }

  // Readers outside the epoch, which get slots: single keys, ranges and views.
  void ReadSlots() {
    std::mt19937_64 random(seed_ + 200);
    std::vector<IndexEntry> entries;
    while (IsWriting()) {
      const uint64_t key = random() % key_space_;
      const uint64_t before = Newest(key);
      ValueRef ref;
      if (index().Find(key, &ref) == Code::kOk) {
        ASSERT_NO_FATAL_FAILURE(ExpectRecord(key, ref.slot(), before));
        ASSERT_EQ(ref.slot() & 0xffff, ref.value_checksum());
      } else {
        ASSERT_NO_FATAL_FAILURE(ExpectNothing(key, before));
      }
      entries.clear();
      bool complete = false;
      ASSERT_EQ(index().Collect(key, key + 20, 20, &entries, &complete), Code::kOk);
      for (const IndexEntry& entry : entries) {
        ASSERT_NO_FATAL_FAILURE(ExpectRecord(entry.key, entry.ref.slot(), 0));
        ASSERT_EQ(entry.ref.slot() & 0xffff, entry.ref.value_checksum());
      }
      if (random() % 16 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(LookThroughView(random()));
    }
  }

  void LookThroughView(uint64_t random) {
    test::View view = buckets_.Take();
    std::array<uint32_t, 8> seen = {};
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < seen.size(); ++i) {
        const uint64_t key = (random + i) % key_space_;
        ValueRef ref;
        const Code code = index().Find(key, &ref, nullptr, view.version);
        const uint32_t slot = code == Code::kOk ? ref.slot() : slot_count_;
        if (round == 0) seen[i] = slot;
        ASSERT_EQ(slot, seen[i]) << "key " << key << " changed under a view";
      }
      std::this_thread::yield();
    }
    ViewRegistry::Release(&view);
  }

  // Fills and evicts every kMovers-th frame.
  void MoveFrames(size_t number) {
    std::mt19937_64 random(seed_ + 300 + number);
    std::vector<uint32_t> free;
    std::vector<uint32_t> used;
    std::deque<std::pair<uint32_t, uint64_t>> retired;
    for (auto frame = static_cast<uint32_t>(number); frame < kFrames; frame += kMovers) {
      free.push_back(frame);
    }
    const auto evict = [&](size_t at, bool only_cooling) {
      const uint32_t frame = used[at];
      if (index().Unswizzle(frames_[frame].key, frame, only_cooling) == Unswizzled::kHeated) return;
      retired.emplace_back(frame, epochs_.Retire());
      used[at] = used.back();
      used.pop_back();
    };
    while (IsWriting()) {
      const uint64_t safe = retired.empty() ? 0 : epochs_.SafeBelow();
      for (; !retired.empty() && retired.front().second < safe; retired.pop_front()) {
        free.push_back(retired.front().first);
      }
      if (!free.empty() && Fill(free.back(), random() % key_space_)) {
        used.push_back(free.back());
        free.pop_back();
      }
      if (used.empty()) continue;
      const size_t at = random() % used.size();
      if (random() % 2 == 0 && index().Cool(frames_[used[at]].key, used[at])) continue;
      evict(at, random() % 2 == 0);
    }
    while (!used.empty()) evict(0, false);
  }

  bool Fill(uint32_t number, uint64_t key) {
    ValueRef ref;
    if (index().Find(key, &ref) != Code::kOk) return false;
    Frame& frame = frames_[number];
    frame.key = key;
    frame.value.fill(ref.slot());
    // Release: as SetFrameSlots demands.
    slots_[number].store(ref.slot(), std::memory_order_release);
    if (!index().Swizzle(key, ref, number)) return false;
    swizzled_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  const uint64_t seed_;
  const uint64_t key_space_;
  const uint32_t slot_count_;
  test::WatchedBuckets buckets_;
  l1::EpochManager& epochs_ = buckets_.shared().epochs();
  std::vector<std::atomic<uint32_t>> slots_;
  std::vector<Frame> frames_;
  std::vector<std::atomic<uint64_t>> key_of_;
  std::vector<std::atomic<uint64_t>> newest_;
  // The key that is being written now.
  std::atomic<uint64_t> writing_{~uint64_t{0}};
  std::atomic<uint64_t> swizzled_{0};
  std::atomic<bool> written_{false};
};

// The number of records of a round can be set by the environment.
TEST(FramesRaceTest, FramesAreTheirReadersAndSlotsAreRight) {
  const auto writes =
      static_cast<uint32_t>(test::FromEnvironment("FRAMES_RACE_WRITES", test::Sized(5000, 1000)));
  for (uint64_t round = 1; round <= 4; ++round) {
    SCOPED_TRACE(round);
    Race race(round, round % 2 == 0 ? 48 : 600, writes, round % 4 < 2 ? 200 : 5000);
    ASSERT_NO_FATAL_FAILURE(race.Run());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace engine_race
