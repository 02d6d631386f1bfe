// Writes that meet a full disk: each record is appended once or not at all, and the answer says so.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "engine_race/store.h"
#include "test/faults/memory_dir.h"
#include "test/faults/scenario.h"
#include "test/faults/staging_test_util.h"

namespace engine_race::test {
namespace {

// Groups have four values.
constexpr uint64_t kGroup = 4;

class FullWriteTest : public ::testing::Test {
 protected:
  void Open(SyncMode sync_mode) {
    options_ = ScenarioOptions(sync_mode);
    const Status opened = Store::Open(options_, dir_.Join("store"), &store_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    // Builds the index, so that it hears of each append.
    EXPECT_EQ(Version(0), 0u);
  }
  Status Put(uint64_t key, uint64_t version) {
    return store_->Write(KeyOf(key), ValueOf(key, version));
  }
  // 0: the key is not there.
  uint64_t Version(uint64_t key) {
    std::string value;
    const Status read = store_->Read(KeyOf(key), &value);
    if (read.code() == Code::kNotFound) return 0;
    uint64_t version = 0;
    EXPECT_TRUE(read.ok() && ParseValue(key, value, &version)) << read.ToString();
    return version;
  }
  // How many records were ever appended: nothing cleans a store as small as these.
  uint64_t RecordCount() {
    store_.reset();
    VerifyReport report;
    EXPECT_TRUE(Store::Verify(options_, dir_.Join("store"), &report, {}).ok());
    return report.record_count;
  }

  const MemoryDir dir_;
  Options options_;
  std::unique_ptr<Store> store_;
};

bool IsWriteTo(const SystemCall& call, std::string_view name) {
  return call.kind == CallKind::kPwrite && PathOfFd(call.fd).find(name) != std::string::npos;
}

// A full group meets a full disk once. Another thread reads the record that filled the group, and
// writes its key anew, before the failed write comes back.
TEST_F(FullWriteTest, AnOlderRecordNeverStandsOverANewerOne) {
  Open(SyncMode::kNone);
  for (const bool deletes : {false, true}) {
    const uint64_t key = deletes ? 200 : 100;
    ASSERT_TRUE(Put(key, 1).ok());
    for (uint64_t i = 2; i < kGroup; ++i) ASSERT_TRUE(Put(key + i, 1).ok());
    std::atomic<int> met{0};
    CallWatch hook([&](SystemCall* call) {
      if (!IsWriteTo(*call, "/value_") || met.fetch_add(1) != 0) return call->Proceed();
      std::thread other([&] {
        EXPECT_EQ(Version(key), deletes ? 0u : 2u);
        EXPECT_TRUE(Put(key, 3).ok());
        EXPECT_EQ(Version(key), 3u);
      });
      other.join();
      return Refuse(ENOSPC);
    });
    {
      const ScopedHook scope(&hook);
      const Status written = deletes ? store_->Delete(KeyOf(key)) : Put(key, 2);
      EXPECT_TRUE(written.ok()) << written.ToString();
    }
    EXPECT_GE(met.load(), 1);
    EXPECT_EQ(Version(key), 3u);
    // The next deletion fills a group as well.
    for (uint64_t i = 1; i < kGroup; ++i) ASSERT_TRUE(Put(key + i, 4).ok());
  }
  EXPECT_EQ(RecordCount(), 4 * kGroup);
}

// What is refused is not there, and what is there was acknowledged: puts, deletions and batches.
TEST_F(FullWriteTest, WhatIsRefusedHasAppendedNothing) {
  Open(SyncMode::kNone);
  for (uint64_t key = 1; key < kGroup; ++key) ASSERT_TRUE(Put(key, 1).ok());
  CallWatch hook([](SystemCall* call) {
    return IsWriteTo(*call, "/value_") ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    // Fills the group, which then cannot be written.
    EXPECT_TRUE(store_->Delete(KeyOf(1)).ok());
    EXPECT_EQ(Version(1), 0u);
    EXPECT_EQ(store_->Delete(KeyOf(2)).code(), Code::kFull);
    EXPECT_EQ(Version(2), 1u);
    EXPECT_EQ(Put(3, 2).code(), Code::kFull);
    EXPECT_EQ(Version(3), 1u);
    WriteBatch batch;
    ASSERT_TRUE(batch.Delete(KeyOf(2)).ok());
    ASSERT_TRUE(batch.Put(KeyOf(uint64_t{1} << 62), ValueOf(uint64_t{1} << 62, 1)).ok());
    EXPECT_EQ(store_->Write(batch).code(), Code::kFull);
    EXPECT_EQ(Version(2), 1u);
    EXPECT_EQ(Version(uint64_t{1} << 62), 0u);
  }
  EXPECT_TRUE(store_->Delete(KeyOf(2)).ok()) << "there is space again";
  EXPECT_EQ(RecordCount(), kGroup + 1);
}

// In a durable mode a record that is appended may find no room in the journal. Then the logs take
// it. If they have no room either, it is appended once all the same, and the answer says so.
TEST_F(FullWriteTest, ARecordThatCannotBeMadeDurableIsAppendedOnce) {
  Open(SyncMode::kGroup);
  bool logs_are_full = false;
  CallWatch hook([&](SystemCall* call) {
    const bool full =
        IsWriteTo(*call, format::kJournalName) || (logs_are_full && IsWriteTo(*call, "/value_"));
    return full ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    EXPECT_TRUE(Put(1, 1).ok());
    logs_are_full = true;
    const Status written = Put(2, 1);
    EXPECT_EQ(written.code(), Code::kFull);
    EXPECT_NE(written.message().find("(written, but not durable)"), std::string::npos)
        << written.ToString();
    EXPECT_EQ(Version(2), 1u);
    // No later record may be acknowledged before that one is durable. So nothing is appended.
    const Status refused = Put(3, 1);
    EXPECT_EQ(refused.code(), Code::kFull);
    EXPECT_EQ(refused.message().find("written"), std::string::npos) << refused.ToString();
    EXPECT_EQ(Version(3), 0u);
    EXPECT_EQ(store_->Delete(KeyOf(1)).code(), Code::kFull);
    EXPECT_EQ(Version(1), 1u);
  }
  EXPECT_TRUE(Put(4, 1).ok()) << "there is space again";
  EXPECT_EQ(RecordCount(), 3u);
}

// Space of dead records is given back for a write that is appended already. A Sync then makes it
// durable.
TEST_F(FullWriteTest, ADurableWriteFindsTheSpaceOfDeadRecords) {
  constexpr uint64_t kKeys = 40;
  // Six rows of 128 records and a part of one: the last 40 records are live.
  constexpr uint64_t kVersions = 20;
  options_ = ScenarioOptions(SyncMode::kGroup);
  options_.bucket_capacity_records = 4 * 256;
  options_.reclaim = Reclaim::kOff;
  ASSERT_TRUE(Store::Open(options_, dir_.Join("store"), &store_).ok());
  for (uint64_t version = 1; version <= kVersions; ++version) {
    for (uint64_t key = 0; key < kKeys; ++key) ASSERT_TRUE(Put(key, version).ok());
  }
  // One write does not make the reclaimer clean what an opening has found.
  options_.reclaim = Reclaim::kBackground;
  store_.reset();
  ASSERT_TRUE(Store::Open(options_, dir_.Join("store"), &store_).ok());
  std::atomic<bool> is_full{true};
  CallWatch hook([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0) {
      is_full = false;
    }
    const bool met = is_full && (IsWriteTo(*call, format::kJournalName) ||
                                 IsWriteTo(*call, "/value_0") || IsWriteTo(*call, "/key_0"));
    return met ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    const Status written = Put(1, kVersions + 1);
    EXPECT_TRUE(written.ok()) << written.ToString();
    EXPECT_FALSE(is_full.load());
  }
  EXPECT_EQ(Version(1), kVersions + 1);
}

// The write that filled the group was Ok, and no later one meets the failure.
TEST_F(FullWriteTest, ClosingTellsOfAGroupThatIsNotInItsLog) {
  options_ = ScenarioOptions(SyncMode::kNone);
  std::atomic<int> told_count{0};
  options_.log = [&](LogLevel level, std::string_view message) {
    if (!message.starts_with("close: full groups")) return;
    EXPECT_EQ(level, LogLevel::kWarning);
    EXPECT_NE(message.find("buckets: 1;"), std::string_view::npos) << message;
    ++told_count;
  };
  ASSERT_TRUE(Store::Open(options_, dir_.Join("store"), &store_).ok());
  CallWatch hook([&](SystemCall* call) {
    return IsWriteTo(*call, "/value_") ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    for (uint64_t key = 0; key < kGroup; ++key) ASSERT_TRUE(Put(key, 1).ok());
    store_.reset();
    EXPECT_EQ(told_count, 1);
    options_.read_only = true;
    ASSERT_TRUE(Store::Open(options_, dir_.Join("store"), &store_).ok());
    store_.reset();
    EXPECT_EQ(told_count, 1) << "a reader writes nothing";
  }
  options_.read_only = false;
  ASSERT_TRUE(Store::Open(options_, dir_.Join("store"), &store_).ok());
  EXPECT_EQ(Version(kGroup - 1), 1u);
  store_.reset();
  EXPECT_EQ(told_count, 1);
}

}  // namespace
}  // namespace engine_race::test
