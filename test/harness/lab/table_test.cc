// Tables, reached in every way, against std::map.
#include "harness/lab/table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "harness/lab/table_cursor.h"
#include "test/harness/lab/table_test_util.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

using harness::TableShape;
using lab::BlockCache;
using lab::CountReader;
using lab::Encoding;
using lab::EpochReader;
using lab::Reach;
using lab::Table;
using lab::TableCursor;
using lab::TableFrames;
using lab::TableOptions;

// The shape makes extents of few records, so that small tables have several.
constexpr TableShape kLarge = {16, 256};

enum class Way : uint8_t {
  kAllCached,
  kExtentsByPointer,
  kIndexesByPointer,
  kAllByPointer,
  kAllCounted
};

TableOptions OptionsOf(Encoding encoding, Way way) {
  TableOptions options;
  options.encoding = encoding;
  options.extents = way >= Way::kExtentsByPointer ? Reach::kPointer : Reach::kCache;
  options.indexes = way >= Way::kIndexesByPointer ? Reach::kPointer : Reach::kCache;
  options.records = way >= Way::kAllByPointer ? Reach::kPointer : Reach::kCache;
  options.protection = way == Way::kAllCounted ? lab::Protection::kCount : lab::Protection::kEpoch;
  return options;
}

class LabTableTest : public ::testing::TestWithParam<std::tuple<Encoding, Way>> {
 protected:
  TableOptions options() const {
    return OptionsOf(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }

  // Builds the table of these records and opens it, with as many frames as it may need.
  void Make(const TableShape& shape, const Records& records) {
    shape_ = shape;
    records_ = records;
    table_.reset();
    ASSERT_TRUE(dir_.Build("t", shape, options().encoding, records).ok());
    ASSERT_TRUE(TableFrames::Create(1000, &frames_).ok());
    cache_ = std::make_unique<BlockCache>(size_t{256} << 20);
    const Status opened = Open(frames_.get());
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  Status Open(TableFrames* frames) {
    return Table::Open(dir_.fd(), "t", shape_, options(), frames, cache_.get(), &table_);
  }

  void ExpectGet(const std::string& key) const {
    std::string payload(shape_.payload_bytes, '?');
    const Status status = table_->Get(key.data(), payload.data());
    const auto at = records_.find(key);
    ASSERT_EQ(status.code(), at == records_.end() ? Code::kNotFound : Code::kOk);
    if (at != records_.end()) {
      ASSERT_EQ(payload, at->second);
    }
  }
  void ExpectGetAll(const std::vector<std::string>& keys) const {
    std::string joined;
    for (const std::string& key : keys) joined += key;
    std::string payloads(keys.size() * shape_.payload_bytes, '?');
    std::vector<Status> statuses(keys.size());
    table_->MultiGet(joined.data(), payloads.data(), statuses);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = records_.find(keys[i]);
      ASSERT_EQ(statuses[i].code(), at == records_.end() ? Code::kNotFound : Code::kOk);
      if (at != records_.end()) {
        ASSERT_EQ(payloads.substr(i * shape_.payload_bytes, shape_.payload_bytes), at->second);
      }
    }
  }
  void ExpectWalk(const std::string& from, size_t steps) const {
    TableCursor cursor(table_.get());
    EXPECT_FALSE(cursor.valid());
    cursor.Seek(from.data());
    auto at = records_.lower_bound(from);
    for (size_t i = 0; i < steps && at != records_.end(); ++i, ++at) {
      ASSERT_TRUE(cursor.valid()) << i << ": " << cursor.status().ToString();
      ASSERT_EQ(std::string(cursor.key(), shape_.key_bytes), at->first) << i;
      ASSERT_EQ(std::string(cursor.payload(), shape_.payload_bytes), at->second) << i;
      cursor.Next();
    }
    if (at == records_.end()) {
      ASSERT_FALSE(cursor.valid());
    }
    ASSERT_TRUE(cursor.status().ok()) << cursor.status().ToString();
  }
  void ExpectAll(std::mt19937_64* random) {
    const std::vector<std::string> probes = Probes(records_, shape_.key_bytes, 50, random);
    for (const std::string& probe : probes) ExpectGet(probe);
    ExpectGetAll(probes);
    for (size_t i = 0; i < probes.size(); i += 20) ExpectWalk(probes[i], 50);
    ExpectWalk(std::string(shape_.key_bytes, '\0'), records_.size());
  }

  TableDir dir_;
  TableShape shape_ = kLarge;
  Records records_;
  std::unique_ptr<TableFrames> frames_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<Table> table_;
};

TEST_P(LabTableTest, HoldsWhatAMapHolds) {
  std::mt19937_64 random(1);
  for (const TableShape shape : {TableShape{8, 8}, TableShape{16, 8}, TableShape{32, 100}}) {
    for (const KeyKind kind : kKeyKinds) {
      SCOPED_TRACE(testing::Message() << shape.key_bytes << ", kind " << static_cast<int>(kind));
      ASSERT_NO_FATAL_FAILURE(Make(shape, RandomRecords(kind, shape, Sized(6000, 3000), &random)));
      ASSERT_NO_FATAL_FAILURE(ExpectAll(&random));
    }
  }
}

TEST_P(LabTableTest, HoldsItOverSeveralExtentsInItsFramesAndTheCacheAlone) {
  std::mt19937_64 random(2);
  ASSERT_NO_FATAL_FAILURE(Make(kLarge, RandomRecords(KeyKind::kRandom, kLarge, 16000, &random)));
  lab::TableFile file;
  ASSERT_TRUE(lab::TableFile::Open(dir_.fd(), "t", &file).ok());
  ASSERT_GT(file.extent_count(), 1u);
  const TableOptions set = options();
  const uint64_t in_frames = set.records == Reach::kPointer   ? file.block_count()
                             : set.indexes == Reach::kPointer ? file.extent_count()
                                                              : 0;
  EXPECT_EQ(frames_->pool()->used_count(), in_frames);
  EXPECT_GE(cache_->used_bytes(), (file.block_count() - in_frames) * lab::kBlockBytes);
  // Lookups need no file.
  std::filesystem::remove(dir_.Join("t"));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(&random));
  table_.reset();
  EXPECT_EQ(frames_->pool()->used_count(), 0u);
}

TEST_P(LabTableTest, OneRecordAndNone) {
  const std::string key(16, 'k');
  for (const Records& records : {Records{}, Records{{key, PayloadOf(key, 8)}}}) {
    ASSERT_NO_FATAL_FAILURE(Make({16, 8}, records));
    std::mt19937_64 random(4);
    const std::vector<std::string> probes = Probes({{key, ""}}, 16, 1, &random);
    for (const std::string& probe : probes) {
      ExpectGet(probe);
      ExpectWalk(probe, 3);
    }
    ExpectGetAll(probes);
    ExpectGetAll({});
  }
}

TEST_P(LabTableTest, ThreadsFindTheSameAtOnce) {
  std::mt19937_64 random(7);
  ASSERT_NO_FATAL_FAILURE(Make(kLarge, RandomRecords(KeyKind::kRandom, kLarge, 5000, &random)));
  std::vector<std::string> keys;
  for (const auto& [key, payload] : records_) keys.push_back(key);
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 mine(seed);
      const auto key = [&] { return keys[mine() % keys.size()]; };
      for (int i = 0; i < 200; ++i) {
        ExpectGet(key());
        ExpectGet(RandomKey(KeyKind::kRandom, 16, &mine));
        if (seed % 2 == 0) ExpectWalk(key(), 30);
        if (seed % 2 == 1) ExpectGetAll({key(), key(), key(), key(), key()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LabTableTest, TooFewFramesOrRefusedMemoryIsAnAnswer) {
  std::mt19937_64 random(6);
  ASSERT_NO_FATAL_FAILURE(Make(kLarge, RandomRecords(KeyKind::kRandom, kLarge, 2000, &random)));
  std::unique_ptr<TableFrames> one;
  ASSERT_TRUE(TableFrames::Create(1, &one).ok());
  const bool needs_more = options().records == Reach::kPointer;
  EXPECT_EQ(Open(one.get()).code(), needs_more ? Code::kFull : Code::kOk);
  table_.reset();
  EXPECT_EQ(one->pool()->used_count(), 0u);
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    Status status;
    {
      const RefuseMemory refuse(passed);
      status = Open(frames_.get());
      refused = refuse.refused();
    }
    // The cache goes on without a larger hash table.
    const bool is_refusal = refused && status.code() == Code::kOutOfMemory;
    EXPECT_TRUE(status.ok() || is_refusal) << status.ToString();
    if (status.ok()) ExpectGet(records_.begin()->first);
    table_.reset();
    ASSERT_EQ(frames_->pool()->used_count(), 0u);
    ASSERT_LT(passed, 1000u);
  }
}

INSTANTIATE_TEST_SUITE_P(Lab, LabTableTest,
                         testing::Combine(testing::ValuesIn(kEncodings),
                                          testing::Values(Way::kAllCached, Way::kExtentsByPointer,
                                                          Way::kIndexesByPointer,
                                                          Way::kAllByPointer, Way::kAllCounted)));

TEST(LabTableReadersTest, AReaderCountsItselfWhileItLivesAndFollowsNoColdSwip) {
  std::unique_ptr<TableFrames> frames;
  ASSERT_TRUE(TableFrames::Create(4, &frames).ok());
  std::atomic<uint64_t> swip{0};
  uint32_t frame = 0;
  EXPECT_FALSE(CountReader(frames.get()).Follow(&swip, &frame));
  EXPECT_FALSE(EpochReader(frames.get()).Follow(&swip, &frame));
  const uint32_t taken = frames->pool()->Take();
  frames->pool()->info(taken).parent = &swip;
  frames->pool()->info(taken).parent_frame = l1::kNoFrame;
  {
    const l1::EpochManager::Guard guard(frames->epochs());
    ASSERT_TRUE(l1::BlockOwner::Install(frames->pool(), taken, Swip(0)));
  }
  {
    CountReader first(frames.get());
    CountReader second(frames.get());
    ASSERT_TRUE(first.Follow(&swip, &frame));
    EXPECT_EQ(frame, taken);
    ASSERT_TRUE(second.Follow(&swip, &frame));
    EXPECT_EQ(frames->reader_count(taken).load(), 2u);
    ASSERT_TRUE(EpochReader(frames.get()).Follow(&swip, &frame));
    EXPECT_EQ(frames->reader_count(taken).load(), 2u);
  }
  EXPECT_EQ(frames->reader_count(taken).load(), 0u);
  EXPECT_TRUE(frames->pool()->Remove(taken));
}

TEST(LabTableFileTest, HasItsNameOnceItIsWholeAndReplacesAnOlderOne) {
  const TableDir dir;
  std::unique_ptr<lab::TableFileBuilder> builder;
  const std::string key(16, 'k');
  const std::string payload(256, 'p');
  for (const int blocks : {3, 2}) {
    ASSERT_TRUE(
        lab::TableFileBuilder::Create(dir.fd(), "t", Encoding::kTree, kLarge, &builder).ok());
    ASSERT_TRUE(builder->Add(key.data(), payload.data()).ok());
    if (blocks == 3) {
      EXPECT_FALSE(std::filesystem::exists(dir.Join("t")));
      // More than one block holds.
      for (char last = 'a'; last <= 'z'; ++last) {
        for (char next = 'a'; next <= 'c'; ++next) {
          const std::string above = std::string(14, 'l') + last + next;
          ASSERT_TRUE(builder->Add(above.data(), payload.data()).ok());
        }
      }
    }
    ASSERT_TRUE(builder->Finish().ok());
    EXPECT_EQ(std::filesystem::file_size(dir.Join("t")), blocks * lab::kBlockBytes);
  }
  EXPECT_EQ(lab::TableFileBuilder::Create(dir.fd(), "t", Encoding::kTree, {12, 8}, &builder).code(),
            Code::kInvalidArgument);
  lab::TableFile file;
  EXPECT_EQ(lab::TableFile::Open(dir.fd(), "none", &file).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::test
