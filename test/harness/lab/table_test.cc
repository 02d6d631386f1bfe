// Tables, reached in every way, against std::map.
#include "harness/lab/table.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "test/harness/lab/encodings.h"
#include "test/harness/lab/table_ways.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

using ::harness::TableShape;
using l1::EpochManager;
using lab::BlockCache;
using lab::Encoding;
using ::lab::kBlockBytes;
using lab::Reach;
using lab::Table;
using lab::TableFrames;
using lab::TableOptions;

class L1TableTest : public ::testing::TestWithParam<std::tuple<Encoding, Way>> {
 protected:
  Encoding encoding() const { return std::get<0>(GetParam()); }
  TableOptions options() const { return OptionsOf(std::get<1>(GetParam())); }

  void ExpectAll(const TableShape& shape, const Records& records, uint32_t block_count,
                 size_t probe_count, std::mt19937_64* random) {
    Memory memory(block_count);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(memory.Open(dir_, options(), &table).ok());
    const std::vector<std::string> probes = Probes(records, shape.key_bytes, probe_count, random);
    for (const std::string& probe : probes) ExpectGet(*table, records, probe);
    ExpectGetAll(*table, records, probes);
    for (size_t i = 0; i < probes.size(); i += 20) ExpectWalk(*table, records, probes[i], 50);
    ExpectWalk(*table, records, std::string(shape.key_bytes, '\0'), records.size());
    table.reset();
    EXPECT_EQ(memory.frames().pool()->used_count(), 0u);
  }

  TableDir dir_;
};

TEST_P(L1TableTest, HoldsWhatAMapHolds) {
  std::mt19937_64 random(1);
  for (const TableShape shape : {TableShape{8, 8}, TableShape{16, 8}, TableShape{32, 100}}) {
    for (const KeyKind kind : kKeyKinds) {
      SCOPED_TRACE(testing::Message() << shape.key_bytes << ", kind " << static_cast<int>(kind));
      const Records records = RandomRecords(kind, shape, Sized(6000, 3000), &random);
      ASSERT_TRUE(dir_.Build("t", shape, lab::BlocksIn(encoding()), records).ok());
      ExpectAll(shape, records, 100, 50, &random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(L1TableTest, HoldsItOverSeveralExtentsAndDownToOneFrame) {
  std::mt19937_64 random(2);
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 16000, &random);
  ASSERT_TRUE(dir_.Build("t", kLarge, lab::BlocksIn(encoding()), records).ok());
  for (const uint32_t block_count : {1, 2, 3, 5, 20, 200, 400}) {
    SCOPED_TRACE(block_count);
    ExpectAll(kLarge, records, block_count, block_count < 10 ? 15 : 100, &random);
    if (HasFatalFailure()) return;
  }
}

TEST_P(L1TableTest, WhatFitsIsLoadedOnce) {
  std::mt19937_64 random(3);
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 16000, &random);
  ASSERT_TRUE(dir_.Build("t", kLarge, lab::BlocksIn(encoding()), records).ok());
  Memory memory(1000);
  std::unique_ptr<Table> table;
  ASSERT_TRUE(memory.Open(dir_, options(), &table).ok());
  uint32_t block_count = table->file().extent_count();
  ASSERT_GT(block_count, 1u);
  for (uint32_t i = 0; i < table->file().extent_count(); ++i) {
    block_count += table->file().block_count(i);
  }
  for (int i = 0; i < 2; ++i) {
    for (const auto& [key, payload] : records) ExpectGet(*table, records, key);
    EXPECT_EQ(table->Stats().loaded_count, block_count);
    EXPECT_EQ(table->Stats().past_frames_count, 0u);
    const bool indexes_in_frames = options().indexes == Reach::kPointer;
    const bool records_in_frames = options().records == Reach::kPointer;
    EXPECT_EQ(table->Stats().hot_count, records_in_frames   ? block_count
                                        : indexes_in_frames ? table->file().extent_count()
                                                            : 0);
    EXPECT_EQ(memory.frames().pool()->used_count(), table->Stats().hot_count);
  }
}

TEST_P(L1TableTest, OneRecordAndNone) {
  const std::string key(16, 'k');
  for (const Records& records : {Records{}, Records{{key, PayloadOf(key, 8)}}}) {
    ASSERT_TRUE(dir_.Build("t", {16, 8}, lab::BlocksIn(encoding()), records).ok());
    std::mt19937_64 random(4);
    Records around = {{key, ""}};
    Memory memory(4);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(memory.Open(dir_, options(), &table).ok());
    const std::vector<std::string> probes = Probes(around, 16, 1, &random);
    for (const std::string& probe : probes) {
      ExpectGet(*table, records, probe);
      ExpectWalk(*table, records, probe, 3);
    }
    ExpectGetAll(*table, records, probes);
    ExpectGetAll(*table, records, {});
  }
}

TEST_P(L1TableTest, DamageIsCorruptionAndNeverWrongBytes) {
  std::mt19937_64 random(5);
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 9000, &random);
  ASSERT_TRUE(dir_.Build("t", kLarge, lab::BlocksIn(encoding()), records).ok());
  const UniqueFd file(::open(dir_.Join("t").c_str(), O_RDWR));
  const uint64_t extent_bytes = ::lab::kExtentBytes;
  for (int i = 0; i < 12; ++i) {
    // Of the first extent, the index now and then.
    const uint64_t block = i % 4 == 0 ? 0 : random() % ::lab::kBlocksPerExtent;
    const uint64_t offset = kBlockBytes * (block + 1) + random() % kBlockBytes;
    ASSERT_LT(offset, kBlockBytes + extent_bytes);
    uint8_t byte;
    ASSERT_EQ(::pread(file.get(), &byte, 1, static_cast<off_t>(offset)), 1);
    byte ^= static_cast<uint8_t>(1u << (i % 8));
    ASSERT_EQ(::pwrite(file.get(), &byte, 1, static_cast<off_t>(offset)), 1);

    Memory memory(300);
    std::unique_ptr<Table> table;
    ASSERT_TRUE(memory.Open(dir_, options(), &table).ok());
    size_t damaged = 0;
    for (const auto& [key, expected] : records) {
      std::string payload(kLarge.payload_bytes, '?');
      const Status status = table->Get(key.data(), payload.data());
      if (status.ok()) {
        ASSERT_EQ(payload, expected);
        continue;
      }
      ++damaged;
      ASSERT_EQ(status.code(), Code::kCorruption);
      ASSERT_NE(status.message().find("t: extent 0, block " + std::to_string(block) + " "),
                std::string::npos);
    }
    EXPECT_GT(damaged, 0u);
    EXPECT_LT(damaged, records.size());
    Table::Cursor cursor(table.get());
    cursor.Seek(std::string(16, '\0').data());
    while (cursor.valid()) cursor.Next();
    EXPECT_EQ(cursor.status().code(), Code::kCorruption);

    byte ^= static_cast<uint8_t>(1u << (i % 8));
    ASSERT_EQ(::pwrite(file.get(), &byte, 1, static_cast<off_t>(offset)), 1);
    ExpectGet(*table, records, records.begin()->first);
  }
}

TEST_P(L1TableTest, RefusedMemoryIsAnAnswer) {
  std::mt19937_64 random(6);
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 2000, &random);
  ASSERT_TRUE(dir_.Build("t", kLarge, lab::BlocksIn(encoding()), records).ok());
  const std::string key = std::next(records.begin(), 777)->first;
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    Memory memory(10);
    std::unique_ptr<Table> table;
    std::string payload(kLarge.payload_bytes, '?');
    Status status;
    {
      const RefuseMemory refuse(passed);
      status = memory.Open(dir_, options(), &table);
      if (status.ok()) status = table->Get(key.data(), payload.data());
      if (status.ok()) {
        Table::Cursor cursor(table.get());
        cursor.Seek(key.data());
        if (cursor.valid()) cursor.Next();
        status = cursor.status();
      }
      refused = refuse.refused();
    }
    EXPECT_EQ(status.code(), refused ? Code::kOutOfMemory : Code::kOk) << status.ToString();
    if (table != nullptr) ExpectGet(*table, records, key);
    ASSERT_LT(passed, 100u);
  }
}

INSTANTIATE_TEST_SUITE_P(L1, L1TableTest,
                         testing::Combine(testing::ValuesIn(kEncodings),
                                          testing::Values(Way::kAllCached, Way::kExtentsByPointer,
                                                          Way::kIndexesByPointer,
                                                          Way::kAllByPointer, Way::kAllCounted,
                                                          Way::kParentsSearchedFor)));

TEST(L1TableOptionsTest, ContradictionsAreRefused) {
  const TableDir dir;
  ASSERT_TRUE(dir.Build("t", kLarge, ::lab::kTreeEncoding, {}).ok());
  Memory memory(2);
  std::unique_ptr<Table> table;
  for (int bits = 0; bits < 8; ++bits) {
    TableOptions options;
    options.extents = (bits & 1) != 0 ? Reach::kPointer : Reach::kCache;
    options.indexes = (bits & 2) != 0 ? Reach::kPointer : Reach::kCache;
    options.records = (bits & 4) != 0 ? Reach::kPointer : Reach::kCache;
    const bool fits = bits == 0 || bits == 1 || bits == 3 || bits == 7;
    EXPECT_EQ(memory.Open(dir, options, &table).code(), fits ? Code::kOk : Code::kInvalidArgument)
        << bits;
  }
  const TableOptions all;
  TableOptions cached = OptionsOf(Way::kAllCached);
  EXPECT_EQ(Table::Open(dir.fd(), "t", all, nullptr, &memory.epochs(), nullptr, &table).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Table::Open(dir.fd(), "t", all, &memory.frames(), nullptr, nullptr, &table).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Table::Open(dir.fd(), "t", cached, nullptr, nullptr, nullptr, &table).code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(Table::Open(dir.fd(), "t", cached, nullptr, nullptr, &memory.cache(), &table).ok());
  EXPECT_TRUE(
      Table::Open(dir.fd(), "t", all, &memory.frames(), &memory.epochs(), nullptr, &table).ok());
  EXPECT_EQ(Table::Open(dir.fd(), "none", all, &memory.frames(), &memory.epochs(), nullptr, &table)
                .code(),
            Code::kIOError);
}

TEST(L1TableOptionsTest, TheCacheAloneIsEnough) {
  const TableDir dir;
  std::mt19937_64 random(7);
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 3000, &random);
  ASSERT_TRUE(dir.Build("t", kLarge, ::lab::kTreeEncoding, records).ok());
  BlockCache cache(size_t{1} << 20);
  for (const Way way : {Way::kAllCached, Way::kExtentsByPointer}) {
    std::unique_ptr<Table> table;
    ASSERT_TRUE(Table::Open(dir.fd(), "t", OptionsOf(way), nullptr, nullptr, &cache, &table).ok());
    for (const std::string& key : Probes(records, kLarge.key_bytes, 50, &random)) {
      ExpectGet(*table, records, key);
    }
    std::string keys = records.begin()->first + records.rbegin()->first;
    std::string payloads(2 * kLarge.payload_bytes, '?');
    std::vector<Status> statuses(2);
    table->MultiGet(keys.data(), payloads.data(), statuses);
    EXPECT_TRUE(statuses[0].ok() && statuses[1].ok());
    EXPECT_EQ(payloads, records.begin()->second + records.rbegin()->second);
    Table::Cursor cursor(table.get());
    cursor.Seek(records.rbegin()->first.data());
    ASSERT_TRUE(cursor.valid());
    cursor.Next();
    EXPECT_FALSE(cursor.valid());
    EXPECT_TRUE(cursor.status().ok());
    EXPECT_GT(table->Stats().loaded_count, 0u);
    EXPECT_EQ(table->Stats().hot_count, 0u);
  }
}

}  // namespace
}  // namespace engine_race::test
