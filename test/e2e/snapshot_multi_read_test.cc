// MultiRead at a snapshot: the state of the snapshot, from the log, from staging and from memory,
// with an index in memory and one on disk, while writers go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/hot_values_fixture.h"
#include "test/index/refused_memory.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kReadKeys = 1001;

uint64_t NumberOf(uint64_t i) { return i * 0x9e3779b97f4a7c15; }

// Numbers of NumberOf, their rows and codes.
struct Batch {
  explicit Batch(const std::vector<uint64_t>& asked)
      : rows(asked.size() * kValueBytes, kUntouched), codes(asked.size(), Code::kIncomplete) {
    for (const uint64_t i : asked) keys.push_back(NumberOf(i));
  }
  std::string_view row(size_t n) const { return {rows.data() + n * kValueBytes, kValueBytes}; }
  bool IsUntouched(size_t n) const { return row(n) == std::string(kValueBytes, kUntouched); }

  std::vector<uint64_t> keys;
  std::string rows;
  std::vector<Code> codes;
};

class SnapshotMultiReadTest : public ::testing::TestWithParam<std::tuple<IoBackend, bool>> {
 protected:
  void SetUp() override { Open(TinyOptions()); }

  void Open(Options options) {
    options.io_backend = std::get<0>(GetParam());
    if (std::get<1>(GetParam())) options.index_memory_bytes = 0;
    store_.reset();
    ASSERT_TRUE(Store::Open(AsRun(options), dir_.path(), &store_).ok());
  }

  void Fill(uint64_t begin, uint64_t end, uint64_t version) {
    for (uint64_t i = begin; i < end; ++i) {
      ASSERT_TRUE(store_->Write(KeyBytes(NumberOf(i)).view(), ValueOf(i, version)).ok());
    }
  }

  // Expects the first kReadKeys records in this version but for the 17th, and no more, in batches
  // of both kinds.
  void ExpectVersion(const Snapshot& snapshot, uint64_t version, uint64_t seed) {
    std::vector<uint64_t> asked(kReadKeys + 100);
    for (uint64_t i = 0; i < asked.size(); ++i) asked[i] = i;
    std::shuffle(asked.begin(), asked.end(), std::mt19937_64(seed));
    Batch batch(asked);
    ASSERT_TRUE(store_->MultiReadInto(snapshot, batch.keys, batch.rows.data(), batch.codes).ok());
    std::vector<std::string> bytes;
    for (const uint64_t key : batch.keys) bytes.push_back(KeyOf(key));
    const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    ASSERT_TRUE(store_->MultiRead(snapshot, keys, values, statuses).ok());
    for (size_t n = 0; n < asked.size(); ++n) {
      const bool is_there = asked[n] < kReadKeys && asked[n] != 17;
      ASSERT_EQ(is_there ? Code::kOk : Code::kNotFound, batch.codes[n]) << asked[n];
      ASSERT_EQ(batch.codes[n], statuses[n].code()) << asked[n];
      if (is_there) {
        ASSERT_TRUE(batch.row(n) == ValueOf(asked[n], version)) << asked[n];
        ASSERT_TRUE(values[n] == ValueOf(asked[n], version)) << asked[n];
      } else {
        ASSERT_TRUE(batch.IsUntouched(n) && values[n].empty()) << asked[n];
      }
    }
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_P(SnapshotMultiReadTest, ShowsItsStateStagedAndInTheLog) {
  Fill(0, kReadKeys, 1);
  ASSERT_TRUE(store_->Delete(KeyOf(NumberOf(17))).ok());
  Snapshot first;
  ASSERT_TRUE(store_->GetSnapshot(&first).ok());
  ExpectVersion(first, 1, 1);
  Fill(0, 17, 2);
  Fill(18, kReadKeys, 2);
  Snapshot second;
  ASSERT_TRUE(store_->GetSnapshot(&second).ok());
  // After both: records that neither shows, a record that is written again, and deletions.
  Fill(kReadKeys, kReadKeys + 100, 3);
  Fill(17, 18, 3);
  for (uint64_t i = 100; i < 200; ++i) ASSERT_TRUE(store_->Delete(KeyOf(NumberOf(i))).ok());
  ExpectVersion(first, 1, 2);
  ExpectVersion(second, 2, 3);
  Batch latest({17, 100, kReadKeys});
  ASSERT_TRUE(store_->MultiReadInto(latest.keys, latest.rows.data(), latest.codes).ok());
  EXPECT_EQ((std::vector<Code>{Code::kOk, Code::kNotFound, Code::kOk}), latest.codes);
  EXPECT_TRUE(latest.row(0) == ValueOf(17, 3) && latest.row(2) == ValueOf(kReadKeys, 3));
}

// Batches at a snapshot and batches of the latest state wait for the same workers.
TEST_P(SnapshotMultiReadTest, BesideWritersAndOtherBatchesOnFewWorkers) {
  Options options = TinyOptions();
  options.worker_count = 2;
  options.tasks_per_worker = 16;
  Open(options);
  Fill(0, kReadKeys, 1);
  ASSERT_TRUE(store_->Delete(KeyOf(NumberOf(17))).ok());
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    // Overwritten records keep their space, so there is an end.
    for (uint64_t version = 2; version < 30 && !stop; ++version) Fill(0, kReadKeys, version);
  });
  RunThreads(6, [&](uint32_t t) {
    for (uint64_t round = 0; round < Sized(6, 2); ++round) {
      if (t % 2 == 0) {
        ExpectVersion(snapshot, 1, t * 100 + round);
        continue;
      }
      Batch latest({3, 400, 900});
      ASSERT_TRUE(store_->MultiReadInto(latest.keys, latest.rows.data(), latest.codes).ok());
      EXPECT_EQ(std::vector<Code>(3, Code::kOk), latest.codes);
    }
  });
  stop = true;
  writer.join();
}

TEST_P(SnapshotMultiReadTest, BadCallsReadNothing) {
  Fill(0, 2, 1);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  Batch batch({0, 1});
  const std::span<Code> one_code(batch.codes.data(), 1);
  EXPECT_EQ(Code::kInvalidArgument,
            store_->MultiReadInto(snapshot, batch.keys, batch.rows.data(), one_code).code());
  EXPECT_EQ(Code::kInvalidArgument,
            store_->MultiReadInto(snapshot, batch.keys, nullptr, batch.codes).code());
  EXPECT_TRUE(store_->MultiReadInto(snapshot, {}, nullptr, {}).ok());
  TempDir other_dir(FastParent());
  const auto other = OpenStore(other_dir.path(), TinyOptions());
  Snapshot foreign;
  ASSERT_TRUE(other->GetSnapshot(&foreign).ok());
  const Snapshot nothing;
  std::vector<std::string> values(1);
  std::vector<Status> statuses(1);
  const std::string key = KeyOf(NumberOf(0));
  const std::vector<std::string_view> keys = {key};
  for (const Snapshot* wrong : {&std::as_const(foreign), &nothing}) {
    EXPECT_EQ(Code::kInvalidArgument,
              store_->MultiReadInto(*wrong, batch.keys, batch.rows.data(), batch.codes).code());
    EXPECT_EQ(Code::kInvalidArgument, store_->MultiRead(*wrong, keys, values, statuses).code());
  }
  EXPECT_EQ((std::vector<Code>(2, Code::kIncomplete)), batch.codes);
  EXPECT_TRUE(batch.IsUntouched(0) && batch.IsUntouched(1) && values[0].empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, SnapshotMultiReadTest,
                         ::testing::Combine(::testing::Values(IoBackend::kPsync, IoBackend::kLibaio,
                                                              IoBackend::kIoUring),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           const IoBackend backend = std::get<0>(info.param);
                           return std::string(backend == IoBackend::kPsync    ? "Psync"
                                              : backend == IoBackend::kLibaio ? "Libaio"
                                                                              : "IoUring") +
                                  (std::get<1>(info.param) ? "Paged" : "Flat");
                         });

// A key outside of the store's range fails alone.
TEST(SnapshotMultiReadCallTest, AKeyOutOfTheStoresRangeFailsAlone) {
  TempDir dir(FastParent());
  Options options = TinyOptions();
  options.key_range = KeyRange{100, 200};
  const auto store = OpenStore(dir.path(), options);
  ASSERT_TRUE(store->Write(KeyBytes(100).view(), ValueOf(100, 1)).ok());
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  const std::vector<uint64_t> keys = {99, 100, 201};
  std::string rows(3 * kValueBytes, kUntouched);
  std::vector<Code> codes(3);
  ASSERT_TRUE(store->MultiReadInto(snapshot, keys, rows.data(), codes).ok());
  EXPECT_EQ((std::vector<Code>{Code::kInvalidArgument, Code::kOk, Code::kInvalidArgument}), codes);
  EXPECT_EQ(rows.substr(kValueBytes, kValueBytes), ValueOf(100, 1));
}

// A worker that gets no memory for its ring reads one value after another.
TEST(SnapshotMultiReadCallTest, RefusedMemoryGivesNoOtherState) {
  bool refused = true;
  for (uint64_t passed = 0; refused && passed < 200; ++passed) {
    TempDir dir(FastParent());
    const auto store = OpenStore(dir.path(), TinyOptions());
    const std::vector<uint64_t> keys = {5, 6, 7};
    for (const uint64_t key : keys) ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    Snapshot snapshot;
    ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
    for (const uint64_t key : keys) ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 2)).ok());
    std::string rows(keys.size() * kValueBytes, kUntouched);
    std::vector<Code> codes(keys.size(), Code::kIncomplete);
    {
      const RefuseMemory refuse(passed);
      const Status status = store->MultiReadInto(snapshot, keys, rows.data(), codes);
      ASSERT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << status.ToString();
      refused = refuse.refused();
    }
    for (size_t n = 0; n < keys.size(); ++n) {
      if (codes[n] != Code::kOk) continue;
      ASSERT_EQ(rows.substr(n * kValueBytes, kValueBytes), ValueOf(keys[n], 1)) << passed;
    }
  }
  EXPECT_FALSE(refused);
}

class HotSnapshotMultiReadTest : public HotValuesTest {
 protected:
  std::vector<Code> MultiReadAt(const Snapshot& snapshot, const std::vector<uint64_t>& numbers,
                                std::string* rows) {
    std::vector<uint64_t> keys;
    keys.reserve(numbers.size());
    for (const uint64_t n : numbers) keys.push_back(NthKey(n));
    rows->assign(numbers.size() * kValueBytes, kUntouched);
    std::vector<Code> codes(numbers.size());
    EXPECT_TRUE(store_->MultiReadInto(snapshot, keys, rows->data(), codes).ok());
    return codes;
  }
};

TEST_F(HotSnapshotMultiReadTest, TakesValuesFromFramesAndPutsThereWhatIsNewest) {
  OpenAndFill();
  Warm(10, 12);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  Write(12, 2);
  const uint64_t admitted = store_->Stats().frame_admission_count;
  const uint64_t hits = store_->Stats().frame_hit_count;
  std::string rows;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((std::vector<Code>(3, Code::kOk)), MultiReadAt(snapshot, {10, 11, 12}, &rows));
  }
  for (uint64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(rows.substr(n * kValueBytes, kValueBytes), ValueOf(NthKey(10 + n), 1)) << n;
  }
  EXPECT_EQ(store_->Stats().frame_admission_count, admitted);
  EXPECT_EQ(store_->Stats().frame_hit_count, hits + 10);
  for (int i = 0; i < 5; ++i) MultiReadAt(snapshot, {13}, &rows);
  EXPECT_EQ(store_->Stats().frame_admission_count, admitted + 1);
  // A frame serves the snapshot that shows its record, and not a later state.
  Write(10, 2);
  EXPECT_EQ((std::vector<Code>{Code::kOk}), MultiReadAt(snapshot, {10}, &rows));
  EXPECT_EQ(rows, ValueOf(NthKey(10), 1));
  EXPECT_EQ(Version(10), 2u);
}

}  // namespace
}  // namespace engine_race::test
