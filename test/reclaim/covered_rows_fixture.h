// A store of one bucket with an index on disk, and what it should hold.
#ifndef TEST_RECLAIM_COVERED_ROWS_FIXTURE_H_
#define TEST_RECLAIM_COVERED_ROWS_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/copies/copies.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/reclaim/bucket_cleaner.h"
#include "test/faults/call_watch.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/log_lines.h"

namespace engine_race::test {

inline constexpr uint64_t kLast = ~uint64_t{0};
inline constexpr const char* kNotCovered = "the index on disk does not cover";

enum class Form { kFlat, kPaged };

// One bucket with an index, and the version of each key's value that the bucket should hold. Keys
// are numbers below kKeys.
class CoveredRowsTest : public ::testing::TestWithParam<Form> {
 protected:
  // An index of fewer keys is not written to disk.
  static constexpr uint64_t kKeys = 4000;

  CoveredRowsTest() {
    options_ = TinyLogOptions();
    options_.bucket_count = 1;
    options_.file_count = 1;
    options_.bucket_capacity_records = 1 << 14;
    options_.index_memory_bytes = GetParam() == Form::kPaged ? 0 : uint64_t{64} << 20;
    options_.index_idle_ms = 0;
    options_.log = messages_.Callback();
    Open();
  }
  ~CoveredRowsTest() override { Close(); }

  void Open() {
    messages_.Clear();
    log_ = OpenLog(options_, dir_.path());
    ASSERT_TRUE(l1::FrameCache::Create(l1::FrameCache::BytesFor(8), nullptr, &frames_).ok());
    const Status built = Index::Build(log_.get(), options_, &index_, frames_.get());
    ASSERT_TRUE(built.ok()) << built.ToString();
  }
  void Close() {
    index_.reset();
    frames_.reset();
    log_.reset();
  }
  void Save() { ASSERT_TRUE(index_->Save(~uint64_t{0}).ok()); }
  // *read_bytes: of key logs.
  void Reopen(uint64_t* read_bytes = nullptr) {
    Close();
    std::atomic<uint64_t> bytes{0};
    CallWatch watch([&](SystemCall* call) {
      const long result = call->Proceed();
      if (call->kind == CallKind::kPread && PathOf(*call) == dir_.Join("key_00")) {
        bytes += call->size;
      }
      return result;
    });
    const ScopedHook hook(&watch);
    ASSERT_NO_FATAL_FAILURE(Open());
    if (read_bytes != nullptr) *read_bytes = bytes;
  }
  void ExpectCovered() const { EXPECT_FALSE(messages_.Said(kNotCovered)) << messages_.text(); }

  void Put(uint64_t key) {
    const Status put = log_->Append(key, ValueOf(key, ++version_).data());
    ASSERT_TRUE(put.ok()) << put.ToString();
    held_[key] = version_;
  }
  void Delete(uint64_t key) {
    ASSERT_TRUE(log_->Append(key, nullptr).ok());
    held_.erase(key);
  }
  void Fill() {
    for (uint64_t key = 0; key < kKeys; ++key) ASSERT_NO_FATAL_FAILURE(Put(key));
  }
  // As BucketCleaner::Clean. With `settle` also settles and releases.
  void Clean(bool settle = true, uint32_t dead_percent = 0) {
    BucketCleaner cleaner(log_.get());
    BucketUse use;
    ASSERT_TRUE(log_->mover().Claim(0));
    const Status cleaned = cleaner.Clean(0, dead_percent, &use);
    log_->mover().Unclaim(0);
    ASSERT_TRUE(cleaned.ok()) << cleaned.ToString();
    if (!settle) return;
    ASSERT_TRUE(log_->mover().Settle().ok());
    log_->mover().Release();
  }
  void OverwriteAndClean(bool settle = true) {
    for (uint64_t key = 0; key < kKeys; key += 2) ASSERT_NO_FATAL_FAILURE(Put(key));
    ASSERT_NO_FATAL_FAILURE(Clean(settle));
  }
  SlotTable Table() {
    BucketCut cut;
    EXPECT_TRUE(log_->reader().LookAtBucket(0, log_->RecordCount(0), &cut).ok());
    return cut.table;
  }
  // Fills runs, so that the rows before them may be freed.
  void PutMany(uint64_t first_key, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(Put(first_key + i % (kKeys / 8)));
  }

  // By lookups and by a walk.
  void ExpectHeld() {
    for (uint64_t key = 0; key <= kKeys; ++key) {
      ValueRef ref;
      const Status found = index_->Find(key, &ref);
      const auto held = held_.find(key);
      if (held == held_.end()) {
        ASSERT_EQ(found.code(), Code::kNotFound) << "key " << key << " came back";
        continue;
      }
      ASSERT_TRUE(found.ok()) << "key " << key << ": " << found.ToString();
      ASSERT_EQ(ReadSlot(*log_, 0, ref.slot()), ValueOf(key, held->second)) << key;
    }
    std::vector<IndexEntry> entries;
    bool complete = false;
    ASSERT_TRUE(index_->Collect(0, 0, kLast, ~size_t{0}, &entries, &complete).ok());
    ASSERT_EQ(entries.size(), held_.size());
    auto held = held_.begin();
    for (const IndexEntry& entry : entries) ASSERT_EQ(entry.key, (held++)->first);
    std::vector<uint64_t> keys(kKeys + 1);
    size_t count = 0;
    ASSERT_TRUE(index_->LastKeys(0, kLast, kLatestVersion, keys, &count).ok());
    EXPECT_EQ(count, held_.size());
  }
  // Closes the store to verify it.
  void ExpectVerifies() {
    Close();
    VerifyReport report;
    const Status verified = VerifyStore(dir_.path(), &report, [](const BadRecord& bad) {
      ADD_FAILURE() << bad.file << ", slot " << bad.slot << ": " << bad.what;
    });
    ASSERT_TRUE(verified.ok()) << verified.ToString();
    Open();
    EXPECT_TRUE(report.index_unusable_bucket_count == 0 || messages_.Said(kNotCovered));
  }

  const TempDir dir_{FastParent()};
  LogLines messages_;
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<l1::FrameCache> frames_;
  std::unique_ptr<Index> index_;
  uint64_t version_ = 0;
  std::map<uint64_t, uint64_t> held_;
};

inline std::string NameOf(const testing::TestParamInfo<Form>& info) {
  return info.param == Form::kFlat ? "Flat" : "Paged";
}

}  // namespace engine_race::test

#endif  // TEST_RECLAIM_COVERED_ROWS_FIXTURE_H_
