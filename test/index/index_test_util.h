// The entries of a key log that holds records, and a plain map of what must be found.
#ifndef TEST_INDEX_INDEX_TEST_UTIL_H_
#define TEST_INDEX_INDEX_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/log/entry_codec.h"
#include "test/index/record_shapes.h"

namespace engine_race::test {

inline constexpr uint64_t kTestStoreId = 0x5eed;

inline bool SameRef(ValueRef a, ValueRef b) {
  return a.slot() == b.slot() && a.value_checksum() == b.value_checksum() &&
         a.tombstone() == b.tombstone();
}

// The newest record of each key.
class Model {
 public:
  Model() = default;
  explicit Model(const std::vector<KeyRecord>& records) {
    for (const KeyRecord& record : records) Add(record);
  }

  void Add(const KeyRecord& record) {
    const auto [place, fresh] = newest_.emplace(record.key, record);
    if (!fresh && record.sequence > place->second.sequence) place->second = record;
  }

  // Leaves tombstones out unless told otherwise.
  std::vector<IndexEntry> Entries(uint64_t first_key = 0, uint64_t last_key = ~uint64_t{0},
                                  bool with_tombstones = false) const {
    std::vector<IndexEntry> entries;
    for (auto it = newest_.lower_bound(first_key); it != newest_.end() && it->first <= last_key;
         ++it) {
      if (with_tombstones || !it->second.tombstone) {
        entries.push_back({it->first, ValueRef(it->second)});
      }
    }
    return entries;
  }

  const std::map<uint64_t, KeyRecord>& newest() const { return newest_; }

 private:
  std::map<uint64_t, KeyRecord> newest_;
};

inline void ExpectSameEntries(const std::vector<IndexEntry>& got,
                              const std::vector<IndexEntry>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].key, wanted[i].key) << i;
    ASSERT_TRUE(SameRef(got[i].ref, wanted[i].ref)) << i << " key " << got[i].key;
  }
}

inline std::vector<IndexEntry> EntriesOf(const BucketIndex::Row& row) {
  std::vector<IndexEntry> entries;
  for (const auto& part : row) {
    for (size_t i = 0; i < part->run.count(); ++i) {
      entries.push_back({part->run.keys()[i], part->run.refs()[i].Load()});
    }
  }
  return entries;
}

// Every key of the model is found with its newest record, and keys beside them are not found.
inline void ExpectFinds(const BucketIndex& index, const Model& model) {
  for (const auto& [key, record] : model.newest()) {
    ValueRef ref;
    const Code code = index.Find(key, &ref);
    ASSERT_EQ(code, record.tombstone ? Code::kNotFound : Code::kOk) << key;
    if (code == Code::kOk) {
      ASSERT_TRUE(SameRef(ref, ValueRef(record))) << key;
    }
    for (const uint64_t beside : {key - 1, key + 1}) {
      if (model.newest().count(beside) == 0) {
        ASSERT_EQ(index.Find(beside, &ref), Code::kNotFound) << beside;
      }
    }
  }
}

// The key log of a bucket.
inline std::vector<format::KeyEntry> Encode(const std::vector<KeyRecord>& records,
                                            uint32_t bucket = 0) {
  const EntryCodec codec(kTestStoreId, bucket);
  std::vector<format::KeyEntry> entries;
  entries.reserve(records.size());
  for (const KeyRecord& record : records) {
    entries.push_back(SlotTable::EncodeAppended(codec, record, record.sequence));
  }
  return entries;
}

// Has no rows if the slots of the records are their numbers. Else every row is of one slot.
inline SlotTable TableOf(const std::vector<KeyRecord>& records) {
  const auto lies_in_its_slot = [](const KeyRecord& record) {
    return record.sequence == record.slot;
  };
  if (std::all_of(records.begin(), records.end(), lies_in_its_slot)) return {};
  SlotTable table;
  for (const KeyRecord& record : records) {
    table.SetRow(record.slot, {.kind = format::RowKind::kUsed,
                               .number = record.sequence,
                               .path = SlotBits::First(1),
                               .held = SlotBits::First(1)});
  }
  return table;
}

// Refers to both. Without a table slots are sequence numbers.
inline RawBucket RawOf(const std::vector<format::KeyEntry>& entries,
                       const SlotTable* table = nullptr) {
  RawBucket raw;
  raw.entries = entries;
  raw.codec = EntryCodec(kTestStoreId, 0);
  raw.table = table;
  raw.record_count = entries.size();
  return raw;
}

}  // namespace engine_race::test

#endif  // TEST_INDEX_INDEX_TEST_UTIL_H_
