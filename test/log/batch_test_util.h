// Batches over the tiny geometry, and the store as a kill at some moment would leave it.
#ifndef TEST_LOG_BATCH_TEST_UTIL_H_
#define TEST_LOG_BATCH_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {

// A key of the tiny geometry's bucket `bucket`.
inline uint64_t KeyIn(uint32_t bucket, uint64_t n) { return (uint64_t{bucket} << 62) | n; }

inline void PutIn(WriteBatch* batch, uint32_t bucket, uint64_t n, uint64_t version) {
  const uint64_t key = KeyIn(bucket, n);
  ASSERT_TRUE(batch->Put(KeyOf(key), ValueOf(key, version)).ok());
}

// `count` puts in each of the four buckets.
inline WriteBatch BatchOverAll(uint64_t count, uint64_t version) {
  WriteBatch batch;
  for (uint64_t n = 0; n < count; ++n) {
    for (uint32_t bucket = 0; bucket < 4; ++bucket) PutIn(&batch, bucket, n, version);
  }
  return batch;
}

// Version by key, of the newest record of each key; deleted ones are absent.
using Content = std::map<uint64_t, uint64_t>;

// Of a store that has a BatchOverAll and nothing newer.
inline Content ContentOver(uint64_t count, uint64_t version) {
  Content content;
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    for (uint64_t n = 0; n < count; ++n) content[KeyIn(bucket, n)] = version;
  }
  return content;
}

// Compares every value.
inline Content ContentOf(BucketLog* log) {
  Content content;
  for (uint32_t bucket = 0; bucket < log->geometry().bucket_count; ++bucket) {
    std::vector<KeyRecord> records = RecordsOf(log, bucket);
    // Slots that were filled again are in no order.
    std::sort(records.begin(), records.end(),
              [](const KeyRecord& a, const KeyRecord& b) { return a.sequence < b.sequence; });
    for (const KeyRecord& record : records) {
      content.erase(record.key);
      if (record.tombstone) continue;
      uint64_t version = 0;
      EXPECT_TRUE(ParseValue(record.key, ReadSlot(*log, bucket, record.slot), &version))
          << bucket << " " << record.slot;
      content[record.key] = version;
    }
  }
  return content;
}

// Opens the store that was copied to `dir`, whose lock the copy does not have.
inline Content ContentIn(const std::string& dir, const Options& options) {
  const auto log = OpenLog(options, dir);
  return log == nullptr ? Content() : ContentOf(log.get());
}

// Takes copies of a store at chosen moments. The page cache keeps what a killed process has stored:
// so each copy is what a kill at that moment leaves.
class KillImages {
 public:
  explicit KillImages(std::string dir) : dir_(std::move(dir)) {}

  void Take() {
    const std::string to = images_.Join(std::to_string(paths_.size()));
    std::filesystem::copy(dir_, to, std::filesystem::copy_options::recursive);
    paths_.push_back(to);
  }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  const std::string dir_;
  TempDir images_;
  std::vector<std::string> paths_;
};

// Calls a function at each call of a listener.
class TellingListener : public AppendListener {
 public:
  Status Prepare(uint32_t bucket) override { return on_prepare ? on_prepare(bucket) : Status(); }
  void BeginBatch() noexcept override { ++begun; }
  void EndBatch() noexcept override { ++ended; }
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override {
    appends.emplace_back(bucket, record);
    if (on_append) on_append(bucket);
  }

  std::function<Status(uint32_t)> on_prepare;
  std::function<void(uint32_t)> on_append;
  std::vector<std::pair<uint32_t, KeyRecord>> appends;
  int begun = 0;
  int ended = 0;
};

inline void Attach(BucketLog* log, AppendListener* listener) {
  for (uint32_t bucket = 0; bucket < log->geometry().bucket_count; ++bucket) {
    BucketCut cut;
    ASSERT_TRUE(log->reader().CutBucket(bucket, log->RecordCount(bucket), listener, &cut).ok());
  }
}
inline void Detach(BucketLog* log) {
  for (uint32_t bucket = 0; bucket < log->geometry().bucket_count; ++bucket) {
    log->reader().DetachListener(bucket);
  }
}

}  // namespace engine_race::test

#endif  // TEST_LOG_BATCH_TEST_UTIL_H_
