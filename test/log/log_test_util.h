// Small geometries and raw access to a store's files, for the tests of the log room.
#ifndef TEST_LOG_LOG_TEST_UTIL_H_
#define TEST_LOG_LOG_TEST_UTIL_H_

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/bucket_log.h"
#include "test/test_util.h"

namespace engine_race::test {

// Groups of four values, so that halves turn over within a few records.
inline Options TinyLogOptions() {
  Options options;
  options.bucket_count = 4;
  options.file_count = 2;
  options.bucket_capacity_records = 4096;
  options.value_group_bytes = 4 * kValueBytes;
  options.key_group_bytes = 256 * kKeyEntryBytes;
  return options;
}

// The slots of a row of it.
inline constexpr uint64_t kTinyRowRecords = 256;

// From one of its four buckets to the next.
inline constexpr uint64_t kKeyStep = uint64_t{1} << 62;

// TinyLogOptions with values of that size.
inline Options SizedLogOptions(uint32_t value_bytes) {
  Options options = TinyLogOptions();
  options.value_bytes = value_bytes;
  return options;
}

inline std::unique_ptr<BucketLog> OpenLog(const Options& options, const std::string& dir) {
  std::unique_ptr<BucketLog> log;
  const Status status = BucketLog::Open(options, dir, &log);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return log;
}

// The value of a slot, or an empty string when it cannot be read.
inline std::string ReadSlot(const BucketLog& log, uint32_t bucket, uint64_t slot) {
  Region buffer;
  if (!Region::Allocate(log.geometry().slot_bytes(), false, &buffer).ok()) return {};
  if (!log.reader().ReadValue(bucket, slot, buffer.data()).ok()) return {};
  return std::string(buffer.data(), log.geometry().value_bytes());
}

// Overwrites bytes of one of the store's files, past the engine.
inline void Overwrite(const std::string& path, const void* bytes, size_t size, uint64_t offset) {
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_WRONLY, 0, &fd).ok());
  ASSERT_TRUE(sys::PwriteFull(fd.get(), bytes, size, offset).ok());
}

// Sets one word of a bucket's counts, with a good check.
inline void SetWord(const std::string& dir, uint64_t store_id, uint32_t bucket,
                    format::WordKind kind, uint64_t payload) {
  const uint64_t word = EncodeWord(store_id, bucket, kind, payload, PayloadBits(kind));
  Overwrite(dir + "/" + format::kStagingCountsName, &word, sizeof(word),
            bucket * sizeof(format::BucketCounts) + static_cast<uint64_t>(kind) * sizeof(word));
}

class NullListener : public AppendListener {
 public:
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const KeyRecord& record) noexcept override {
    ++appends;
    last = record;
  }
  int appends = 0;
  KeyRecord last;
};

// Every record of a bucket in order of slot, decoded from log and staging as the index build does
// it. Expects that none is damaged.
inline std::vector<KeyRecord> RecordsOf(BucketLog* log, uint32_t bucket) {
  NullListener listener;
  BucketCut cut;
  std::vector<KeyRecord> records;
  const Status status = log->reader().CutBucket(bucket, /*first_sequence=*/0, &listener, &cut);
  EXPECT_TRUE(status.ok()) << status.ToString();
  log->reader().DetachListener(bucket);
  const uint64_t logged_end = cut.logged_slot_end();
  Region keys;
  EXPECT_TRUE(Region::Allocate(cut.slot_end() * kKeyEntryBytes + 4096, false, &keys).ok());
  EXPECT_TRUE(log->slots()
                  .ReadKeys(bucket, 0, RoundUp(logged_end, format::kPageEntries), keys.data())
                  .ok());
  auto* const entries = reinterpret_cast<format::KeyEntry*>(keys.data());
  cut.PutStaged(entries);
  for (uint64_t slot = 0; slot < cut.slot_end(); ++slot) {
    if (!cut.Holds(slot)) continue;
    KeyRecord record;
    EXPECT_TRUE(cut.table.Decode(log->codec(bucket), entries[slot], slot, &record)) << slot;
    records.push_back(record);
  }
  return records;
}

}  // namespace engine_race::test

#endif  // TEST_LOG_LOG_TEST_UTIL_H_
