#include "engine_race/base/write_batch.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/options.h"
#include "test/index/refused_memory.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

TEST(WriteBatchTest, CopiesWhatItIsGiven) {
  WriteBatch batch;
  EXPECT_TRUE(batch.empty());
  for (uint64_t key = 0; key < 300; ++key) {
    std::string value = ValueOf(key, 7);
    ASSERT_TRUE(batch.Put(KeyOf(key), value).ok());
    value.assign(value.size(), 'x');
  }
  ASSERT_TRUE(batch.Delete(KeyOf(5)).ok());
  EXPECT_EQ(batch.size(), 301u);
  EXPECT_EQ(batch.put_count(), 300u);
  EXPECT_EQ(batch.bytes(), 301 * kKeyBytes + 300 * kValueBytes);
  for (uint64_t key = 0; key < 300; ++key) {
    const WriteBatch::Record& record = batch.records()[key];
    EXPECT_EQ(record.key, key);
    EXPECT_EQ(std::string(record.value, kValueBytes), ValueOf(key, 7));
    EXPECT_EQ(record.value_hash, HashValue(record.value, kValueBytes));
  }
  EXPECT_EQ(batch.records().back().key, 5u);
  EXPECT_EQ(batch.records().back().value, nullptr);
}

TEST(WriteBatchTest, RefusesOtherSizesAndStaysAsItWas) {
  WriteBatch batch;
  const std::string value = ValueOf(1, 1);
  EXPECT_EQ(batch.Put("short", value).code(), Code::kInvalidArgument);
  EXPECT_EQ(batch.Put(KeyOf(1), value.substr(1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(batch.Put(KeyOf(1), {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(batch.Delete("longer than eight").code(), Code::kInvalidArgument);
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.bytes(), 0u);
}

TEST(WriteBatchTest, ManyPutsAreThoseOfEachRecord) {
  std::vector<uint64_t> keys;
  std::string values;
  for (uint64_t key = 0; key < 300; ++key) {
    keys.push_back(key % 7);
    values += ValueOf(key, 3);
  }
  WriteBatch batch;
  ASSERT_TRUE(batch.Delete(KeyOf(5)).ok());
  ASSERT_TRUE(batch.PutMany({}, nullptr).ok());
  ASSERT_TRUE(batch.PutMany(keys, values.data()).ok());
  ASSERT_EQ(batch.size(), 301u);
  EXPECT_EQ(batch.put_count(), 300u);
  for (uint64_t i = 0; i < 300; ++i) {
    const WriteBatch::Record& record = batch.records()[i + 1];
    EXPECT_EQ(record.key, i % 7);
    EXPECT_EQ(std::string(record.value, kValueBytes), ValueOf(i, 3));
    EXPECT_EQ(record.value_hash, HashValue(record.value, kValueBytes));
  }
}

TEST(WriteBatchTest, TakesValuesOfItsOwnSizeAlone) {
  for (const uint32_t size : {8U, 100U, 1536U, 1U << 20}) {
    WriteBatch batch(size);
    EXPECT_EQ(batch.value_bytes(), size);
    std::vector<uint64_t> keys;
    std::string values;
    for (uint64_t key = 0; key < 5; ++key) {
      keys.push_back(key);
      values += std::string(size, static_cast<char>('a' + key));
    }
    EXPECT_EQ(batch.Put(KeyOf(1), values.substr(0, size - 1)).code(), Code::kInvalidArgument);
    EXPECT_EQ(batch.Put(KeyOf(1), values.substr(0, size + 1)).code(), Code::kInvalidArgument);
    ASSERT_TRUE(batch.PutMany(keys, values.data()).ok());
    ASSERT_TRUE(batch.Put(KeyOf(9), values.substr(0, size)).ok());
    EXPECT_EQ(batch.bytes(), 6 * (kKeyBytes + uint64_t{size}));
    for (uint64_t key = 0; key < 5; ++key) {
      EXPECT_EQ(std::string(batch.records()[key].value, size),
                std::string(size, static_cast<char>('a' + key)));
    }
    const WriteBatch moved = std::move(batch);
    EXPECT_EQ(moved.value_bytes(), size);
    EXPECT_EQ(moved.records().back().value_hash, HashValue(values.data(), size));
  }
  EXPECT_EQ(WriteBatch(0).value_bytes(), kMinValueBytes);
  EXPECT_EQ(WriteBatch(~uint32_t{0}).value_bytes(), kMaxValueBytes);
}

TEST(WriteBatchTest, ManyPutsThatAreRefusedMemoryLeaveItAsItWas) {
  const std::vector<uint64_t> keys(1000, 1);
  const std::string values(1000 * kValueBytes, 'v');
  bool refused = true;
  for (uint64_t passed_count = 0; refused; ++passed_count) {
    WriteBatch batch;
    ASSERT_TRUE(batch.Put(KeyOf(2), ValueOf(2, 1)).ok());
    Status put;
    {
      const RefuseMemory refuse(passed_count);
      put = batch.PutMany(keys, values.data());
      refused = refuse.refused();
    }
    EXPECT_EQ(put.code(), refused ? Code::kOutOfMemory : Code::kOk);
    ASSERT_EQ(batch.size(), refused ? 1u : 1001u);
    ASSERT_TRUE(batch.Put(KeyOf(3), ValueOf(3, 1)).ok());
    EXPECT_EQ(std::string(batch.records()[0].value, kValueBytes), ValueOf(2, 1));
    EXPECT_EQ(std::string(batch.records().back().value, kValueBytes), ValueOf(3, 1));
  }
}

TEST(WriteBatchTest, ClearKeepsTheMemory) {
  WriteBatch batch;
  ASSERT_TRUE(batch.Reserve(200, 3).ok());
  ASSERT_TRUE(batch.Put(KeyOf(1), ValueOf(1, 1)).ok());
  const char* const memory = batch.records()[0].value;
  batch.Clear();
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.put_count(), 0u);
  ASSERT_TRUE(batch.Put(KeyOf(2), ValueOf(2, 1)).ok());
  EXPECT_EQ(batch.records()[0].value, memory);
}

TEST(WriteBatchTest, RoomForMoreThanThereIsMemoryIsRefused) {
  WriteBatch batch;
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  for (const auto& [puts, deletes] :
       {std::pair{kMost, size_t{0}}, {size_t{0}, kMost}, {kMost, size_t{1}}, {kMost, kMost}}) {
    EXPECT_EQ(batch.Reserve(puts, deletes).code(), Code::kOutOfMemory);
  }
  EXPECT_TRUE(batch.Put(KeyOf(1), ValueOf(1, 1)).ok());
}

TEST(WriteBatchTest, MovedFromItIsEmpty) {
  WriteBatch batch;
  ASSERT_TRUE(batch.Put(KeyOf(1), ValueOf(1, 1)).ok());
  WriteBatch moved(std::move(batch));
  EXPECT_EQ(moved.size(), 1u);
  EXPECT_TRUE(batch.empty());  // NOLINT(bugprone-use-after-move): it says that it is empty
  ASSERT_TRUE(batch.Put(KeyOf(2), ValueOf(2, 1)).ok());
  EXPECT_EQ(std::string(moved.records()[0].value, kValueBytes), ValueOf(1, 1));
}

}  // namespace
}  // namespace engine_race::test
