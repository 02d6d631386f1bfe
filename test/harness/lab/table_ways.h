// The ways to reach the blocks of a table of the lab, and every kind of lookup against std::map.
#ifndef TEST_HARNESS_LAB_TABLE_WAYS_H_
#define TEST_HARNESS_LAB_TABLE_WAYS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/lab/table.h"
#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {

enum class Way : uint8_t {
  kAllCached,
  kExtentsByPointer,
  kIndexesByPointer,
  kAllByPointer,
  kAllCounted,
  kParentsSearchedFor,
};

inline lab::TableOptions OptionsOf(Way way) {
  lab::TableOptions options;
  options.extents = way >= Way::kExtentsByPointer ? lab::Reach::kPointer : lab::Reach::kCache;
  options.indexes = way >= Way::kIndexesByPointer ? lab::Reach::kPointer : lab::Reach::kCache;
  options.records = way >= Way::kAllByPointer ? lab::Reach::kPointer : lab::Reach::kCache;
  options.protection = way == Way::kAllCounted ? lab::Protection::kCount : lab::Protection::kEpoch;
  options.search_for_parents = way == Way::kParentsSearchedFor;
  return options;
}

// Frames and a cache with room for as many blocks each.
class Memory {
 public:
  explicit Memory(uint32_t block_count) : cache_(size_t{block_count} * 17000, /*shard_bits=*/0) {
    EXPECT_TRUE(lab::TableFrames::Create(block_count, &epochs_, &frames_).ok());
  }
  Status Open(const TableDir& dir, const lab::TableOptions& options,
              std::unique_ptr<lab::Table>* table) {
    return lab::Table::Open(dir.fd(), "t", options, frames_.get(), &epochs_, &cache_, table);
  }
  lab::TableFrames& frames() { return *frames_; }
  l1::EpochManager& epochs() { return epochs_; }
  lab::BlockCache& cache() { return cache_; }

 private:
  l1::EpochManager epochs_;
  std::unique_ptr<lab::TableFrames> frames_;
  lab::BlockCache cache_;
};

// The shape makes extents of few records, so that small tables have several.
inline constexpr ::harness::TableShape kLarge = {16, 256};

inline void ExpectGet(const lab::Table& table, const Records& records, const std::string& key) {
  std::string payload(table.file().shape().payload_bytes, '?');
  const Status status = table.Get(key.data(), payload.data());
  const auto at = records.find(key);
  ASSERT_EQ(status.code(), at == records.end() ? Code::kNotFound : Code::kOk) << status.ToString();
  if (at != records.end()) {
    ASSERT_EQ(payload, at->second);
  }
}

inline void ExpectGetAll(const lab::Table& table, const Records& records,
                         const std::vector<std::string>& keys) {
  const ::harness::TableShape shape = table.file().shape();
  std::string joined;
  for (const std::string& key : keys) joined += key;
  std::string payloads(keys.size() * shape.payload_bytes, '?');
  std::vector<Status> statuses(keys.size());
  table.MultiGet(joined.data(), payloads.data(), statuses);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = records.find(keys[i]);
    ASSERT_EQ(statuses[i].code(), at == records.end() ? Code::kNotFound : Code::kOk);
    if (at != records.end()) {
      ASSERT_EQ(payloads.substr(i * shape.payload_bytes, shape.payload_bytes), at->second);
    }
  }
}

inline void ExpectWalk(const lab::Table& table, const Records& records, const std::string& from,
                       size_t steps) {
  const ::harness::TableShape shape = table.file().shape();
  lab::Table::Cursor cursor(&table);
  EXPECT_FALSE(cursor.valid());
  cursor.Seek(from.data());
  auto at = records.lower_bound(from);
  for (size_t i = 0; i < steps && at != records.end(); ++i, ++at) {
    ASSERT_TRUE(cursor.valid()) << i << ": " << cursor.status().ToString();
    ASSERT_EQ(std::string(cursor.key(), shape.key_bytes), at->first) << i;
    ASSERT_EQ(std::string(cursor.payload(), shape.payload_bytes), at->second) << i;
    cursor.Next();
  }
  if (at == records.end()) {
    ASSERT_FALSE(cursor.valid());
  }
  ASSERT_TRUE(cursor.status().ok()) << cursor.status().ToString();
}

}  // namespace engine_race::test

#endif  // TEST_HARNESS_LAB_TABLE_WAYS_H_
