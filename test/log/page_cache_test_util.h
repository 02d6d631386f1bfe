// Makes of a closed store what a restart of the machine, or the loss of its page cache, leaves of
// it. Also makes stores of one filled bucket to try that with.
#ifndef TEST_LOG_PAGE_CACHE_TEST_UTIL_H_
#define TEST_LOG_PAGE_CACHE_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/log/log_test_util.h"

namespace engine_race::test {

inline Options TinyLogOptions(SyncMode mode) {
  Options options = TinyLogOptions();
  options.sync_mode = mode;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

// The counts of the bucket name a page cache that is not the machine's.
inline void NameAnotherPageCache(const std::string& dir, uint64_t store_id, uint32_t bucket) {
  constexpr uint32_t kAnotherPageCache = 12345;
  SetWord(dir, store_id, bucket, format::WordKind::kPageCache, kAnotherPageCache);
}

// The machine restarts after it has written everything back.
inline void Restart(const std::string& dir, uint64_t store_id, uint32_t bucket_count = 4) {
  for (uint32_t bucket = 0; bucket < bucket_count; ++bucket) {
    NameAnotherPageCache(dir, store_id, bucket);
  }
}

// Nothing that was written to the file has reached the device: it is one hole.
inline void LoseFile(const std::string& path) {
  const auto size_bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, size_bytes);
}

// Nothing of these bytes of the file has reached the device.
inline void LoseBytes(const std::string& path, uint64_t offset, uint64_t bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file << std::string(bytes, '\0');
  ASSERT_TRUE(file.flush().good()) << path;
}

// Nothing of what was staged has reached the device; the counts have.
inline void LoseStaging(const std::string& dir) {
  for (const char* name : {format::kStagingKeysName, format::kStagingValuesName}) {
    LoseFile(dir + "/" + name);
  }
}

// The machine restarts without having written staging back.
inline void LosePower(const std::string& dir, uint64_t store_id, uint32_t bucket_count = 4) {
  LoseStaging(dir);
  Restart(dir, store_id, bucket_count);
}

// Appends keys [begin, end), which lie in bucket 0. Key k goes into slot k when all are appended in
// order.
inline void AppendMany(BucketLog* log, uint64_t begin, uint64_t end) {
  for (uint64_t key = begin; key < end; ++key) {
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok()) << key;
  }
}

// Expects bucket 0 to hold keys [0, count), each in its slot.
inline void ExpectHoldsExactly(BucketLog* log, uint64_t count) {
  ASSERT_NE(log, nullptr);
  const std::vector<KeyRecord> records = RecordsOf(log, 0);
  ASSERT_EQ(records.size(), count);
  for (uint64_t slot = 0; slot < count; ++slot) {
    EXPECT_EQ(records[slot].key, slot);
    EXPECT_EQ(ReadSlot(*log, 0, slot), ValueOf(slot, 1)) << slot;
  }
}

}  // namespace engine_race::test

#endif  // TEST_LOG_PAGE_CACHE_TEST_UTIL_H_
