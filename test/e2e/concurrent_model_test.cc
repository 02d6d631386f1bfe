// Many threads at once on a store that is closed and opened again and again, beside a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "test/e2e/engine_fixture.h"
#include "test/e2e/model_keys.h"
#include "test/e2e/model_options.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

// A key's operations are numbered from 1, by the one thread that writes it; which are deletes
// follows from key and number.
class ConcurrentModel {
 public:
  static constexpr uint32_t kWriterCount = 4;
  static constexpr uint32_t kKeyCount = 128;

  explicit ConcurrentModel(uint32_t value_bytes) : value_bytes_(value_bytes) {}

  static uint64_t KeyAt(uint32_t i) { return i * (~uint64_t{0} / (kKeyCount - 1)); }
  static bool IsDelete(uint32_t i, uint64_t number) {
    return (i * 31 + number * 0x9e3779b97f4a7c15) >> 61 == 0;
  }

  void Write(Store* store, uint32_t writer, Rng& rng) {
    const auto i =
        static_cast<uint32_t>(rng() % (kKeyCount / kWriterCount)) * kWriterCount + writer;
    const uint64_t number = started_[i].load() + 1;
    started_[i].store(number);
    const Status status =
        IsDelete(i, number)
            ? store->Delete(KeyOf(KeyAt(i)))
            : store->Write(KeyOf(KeyAt(i)), ValueOf(KeyAt(i), number, value_bytes_));
    ASSERT_TRUE(status.ok()) << status.ToString();
    acknowledged_[i].store(number);
  }

  // What one reading thread has seen of each key: it never goes back behind that.
  using Seen = std::array<uint64_t, kKeyCount>;

  void Read(Store* store, Rng& rng, Seen* seen) const {
    const auto i = static_cast<uint32_t>(rng() % kKeyCount);
    const uint64_t floor = acknowledged_[i].load();
    std::string value;
    const Status status = store->Read(KeyOf(KeyAt(i)), &value);
    if (status.code() == Code::kNotFound) {
      ExpectMayBeAbsent(i, floor, seen);
      return;
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectValue(i, floor, value, seen);
  }

  void Scan(Store* store, Rng& rng, Seen* seen) const {
    auto first = static_cast<uint32_t>(rng() % kKeyCount);
    auto last = static_cast<uint32_t>(rng() % kKeyCount);
    if (first > last) std::swap(first, last);
    std::array<uint64_t, kKeyCount> floors;
    for (uint32_t i = first; i < last; ++i) floors[i] = acknowledged_[i].load();
    uint32_t next = first;
    const Status status = store->Range(
        KeyOf(KeyAt(first)), KeyOf(KeyAt(last)), [&](std::string_view key, std::string_view value) {
          const uint64_t number = DecodeKey(key.data());
          for (; next < last && KeyAt(next) < number; ++next) {
            ExpectMayBeAbsent(next, floors[next], seen);
          }
          ASSERT_TRUE(next < last && KeyAt(next) == number) << "phantom, or not ascending";
          ExpectValue(next, floors[next], value, seen);
          ++next;
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (; next < last; ++next) ExpectMayBeAbsent(next, floors[next], seen);
  }

  uint64_t acknowledged_count() const {
    uint64_t count = 0;
    for (const auto& number : acknowledged_) count += number.load();
    return count;
  }

 private:
  void ExpectValue(uint32_t i, uint64_t floor, std::string_view value, Seen* seen) const {
    uint64_t number = 0;
    ASSERT_TRUE(ParseValue(KeyAt(i), value, &number, value_bytes_))
        << "wrong bytes under key " << i;
    ASSERT_GE(number, std::max(floor, (*seen)[i])) << "key " << i << " went back";
    ASSERT_LE(number, started_[i].load()) << "key " << i;
    ASSERT_FALSE(IsDelete(i, number)) << "key " << i;
    (*seen)[i] = number;
  }

  void ExpectMayBeAbsent(uint32_t i, uint64_t floor, const Seen* seen) const {
    const uint64_t oldest = std::max(floor, (*seen)[i]);
    if (oldest == 0) return;
    const uint64_t newest = started_[i].load();
    for (uint64_t number = oldest; number <= newest; ++number) {
      if (IsDelete(i, number)) return;
    }
    FAIL() << "key " << i << " is gone; no delete is among " << oldest << " to " << newest;
  }

  const uint32_t value_bytes_;
  std::array<std::atomic<uint64_t>, kKeyCount> started_ = {};
  std::array<std::atomic<uint64_t>, kKeyCount> acknowledged_ = {};
};

TEST(ConcurrentModelTest, WritersReadersScannersSyncersAndClosers) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const uint64_t round_count = Sized(PartOf(150, 2), 60);
  constexpr uint32_t kReaderCount = 3;
  constexpr uint32_t kScannerCount = 2;
  constexpr uint32_t kSyncerCount = 1;
  std::unique_ptr<TempDir> dir;
  std::unique_ptr<ConcurrentModel> model;
  std::vector<ConcurrentModel::Seen> seen;
  Options geometry;
  uint64_t acknowledged_count = 0;
  for (uint64_t round = 0; round < round_count && !HasFailure(); ++round) {
    if (round % 30 == 0) {
      dir = std::make_unique<TempDir>(FastParent());
      seen.assign(kReaderCount + kScannerCount, {});
      geometry = RandomGeometry(rng);
      // Values have room for their version.
      geometry.value_bytes = std::max(geometry.value_bytes, 16U);
      model = std::make_unique<ConcurrentModel>(geometry.value_bytes);
      geometry.bucket_capacity_records = kMaxBucketRecords;
      geometry.key_range.reset();
    }
    const auto store = OpenStore(dir->path(), RandomTuning(geometry, rng));
    ASSERT_NE(store, nullptr);
    std::atomic<uint32_t> writing{ConcurrentModel::kWriterCount};
    const uint64_t write_count = rng() % Sized(300, 80);
    const uint64_t round_seed = rng();
    RunThreads(ConcurrentModel::kWriterCount + kReaderCount + kScannerCount + kSyncerCount,
               [&](uint32_t t) {
                 Rng own(round_seed + t);
                 if (t < ConcurrentModel::kWriterCount) {
                   for (uint64_t i = 0; i < write_count; ++i) model->Write(store.get(), t, own);
                   --writing;
                   return;
                 }
                 const uint32_t role = t - ConcurrentModel::kWriterCount;
                 // Once more after the last write.
                 for (bool last = false; !last;) {
                   last = writing.load() == 0;
                   if (role < kReaderCount) {
                     model->Read(store.get(), own, &seen[role]);
                   } else if (role < kReaderCount + kScannerCount) {
                     model->Scan(store.get(), own, &seen[role]);
                   } else {
                     const Status status = store->Sync();
                     EXPECT_TRUE(status.ok()) << status.ToString();
                     std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
                   }
                 }
               });
    acknowledged_count += write_count * ConcurrentModel::kWriterCount;
    if (round % 30 == 29) {
      EXPECT_EQ(store->Stats().record_count, model->acknowledged_count());
    }
  }
  EXPECT_GT(acknowledged_count, 0u);
}

}  // namespace
}  // namespace engine_race::test
