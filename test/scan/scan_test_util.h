// A small store of the log, index and scan rooms, and the plain map that says what scans must see.
#ifndef TEST_SCAN_SCAN_TEST_UTIL_H_
#define TEST_SCAN_SCAN_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/scan/range_reader.h"
#include "test/test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kMiB = 1024 * 1024;

// Spreads small numbers over all keys, one to one.
inline uint64_t SpreadKey(uint64_t number) { return number * 0x9e3779b97f4a7c15; }

class ScanStore {
 public:
  explicit ScanStore(uint32_t bucket_count = 16,
                     const std::filesystem::path& parent = std::filesystem::temp_directory_path(),
                     uint32_t value_bytes = kValueBytes)
      : dir(parent) {
    options.value_bytes = value_bytes;
    options.bucket_count = bucket_count;
    options.file_count = bucket_count < 4 ? bucket_count : 4;
    options.bucket_capacity_records = 1 << 20;
    options.value_group_bytes = 16 * 1024;
    options.log = [this](LogLevel, std::string_view message) {
      std::lock_guard lock(log_mutex_);
      messages_.emplace_back(message);
    };
    const Status status = BucketLog::Open(options, dir.path(), &log);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  ~ScanStore() {
    reader.reset();
    index.reset();
    log.reset();
  }

  void Put(uint64_t key, uint64_t version = 1) {
    const std::string value = ValueOf(key, version, options.value_bytes);
    const Status status = log->Append(key, value.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    model[key] = version;
  }
  void Delete(uint64_t key) {
    ASSERT_TRUE(log->Append(key, nullptr).ok());
    model.erase(key);
  }
  void Fill(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) Put(SpreadKey(i));
  }

  // Touches memory freely, so that what is cached does not hang on the machine.
  void OpenReader(uint64_t budget_bytes = 64 * kMiB) {
    reader.reset();
    if (index == nullptr) {
      const Status status = Index::Build(log.get(), options, &index);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    RangeTuning tuning;
    tuning.touch_time_percent = 1000000;
    reader = std::make_unique<RangeReader>(*log, *index, options, budget_bytes, tuning);
  }

  // Scans with a visitor of numbers and values.
  template <typename Visit>
  Status Scan(uint64_t first, uint64_t last, Visit&& visit) const {
    return reader->Scan(first, last, [&](std::string_view key, std::string_view value) {
      EXPECT_EQ(options.value_bytes, value.size());
      visit(DecodeKey(key.data()), value.data());
    });
  }

  // Bytes of all live values.
  uint64_t live_bytes() const { return model.size() * options.value_bytes; }

  std::vector<std::string> messages() {
    std::lock_guard lock(log_mutex_);
    return messages_;
  }

  TempDir dir;
  Options options;
  std::unique_ptr<BucketLog> log;
  std::unique_ptr<Index> index;
  std::unique_ptr<RangeReader> reader;
  std::map<uint64_t, uint64_t> model;

 private:
  std::mutex log_mutex_;
  std::vector<std::string> messages_;
};

// Checks, record by record, that a scan gives exactly the map's part in [first, last].
class ModelVisitor {
 public:
  ModelVisitor(const std::map<uint64_t, uint64_t>& model, uint64_t first = 0,
               uint64_t last = ~uint64_t{0}, uint32_t value_bytes = kValueBytes)
      : next_(model.lower_bound(first)), end_(model.upper_bound(last)), value_bytes_(value_bytes) {}

  void operator()(uint64_t key, const char* value) {
    const bool good =
        next_ != end_ && next_->first == key &&
        std::string_view(value, value_bytes_) == ValueOf(key, next_->second, value_bytes_);
    if (!good) ++bad_count;
    if (next_ != end_) ++next_;
    ++count;
  }
  bool complete() const { return bad_count == 0 && next_ == end_; }

  uint64_t count = 0;
  uint64_t bad_count = 0;

 private:
  std::map<uint64_t, uint64_t>::const_iterator next_;
  const std::map<uint64_t, uint64_t>::const_iterator end_;
  const uint32_t value_bytes_;
};

inline void ExpectScanMatches(const ScanStore& store, uint64_t first = 0,
                              uint64_t last = ~uint64_t{0}) {
  ModelVisitor visitor(store.model, first, last, store.options.value_bytes);
  const Status status = store.Scan(first, last, visitor);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(visitor.complete()) << visitor.count << " visited, " << visitor.bad_count << " bad";
}

// Runs `body(thread number)` in `count` threads at once.
template <typename Body>
void RunThreads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace engine_race::test

#endif  // TEST_SCAN_SCAN_TEST_UTIL_H_
