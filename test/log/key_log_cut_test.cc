// The ends of key logs after a power loss, which is played by another boot id in the counts.
#include "engine_race/log/key_log_cut.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kPerBucket = 640;  // two groups of keys and a half
constexpr uint64_t kCut = 100;

// A file system that neither punches holes nor knows where they are.
class NoHoles : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0) {
      errno = EOPNOTSUPP;
      return -1;
    }
    if (call->kind == CallKind::kLseek) return call->offset;
    return call->Proceed();
  }
};

class KeyLogCutTest : public testing::Test {
 protected:
  // Bucket 0 will end at kCut, the others where they do.
  void SetUp() override {
    options_ = TinyLogOptions();
    options_.bucket_capacity_records = uint64_t{1} << 20;
    {
      const auto log = OpenLog(options_, dir_.path());
      store_id_ = log->store_id();
      for (uint64_t i = 0; i < kPerBucket; ++i) {
        for (uint64_t bucket = 0; bucket < 4; ++bucket) {
          ASSERT_TRUE(log->Append(bucket * kKeyStep + i, ValueOf(i, 1).data()).ok());
        }
      }
      const std::string zeros(kValueBytes, '\0');
      Overwrite(dir_.Join("value_00"), zeros.data(), zeros.size(),
                log->slots().LocateValues(0, kCut).offset);
    }
    Restart(dir_.path(), store_id_);
  }

  Status Open() {
    std::unique_ptr<BucketLog> log;
    return BucketLog::Open(options_, dir_.path(), &log);
  }
  // Opened so, the store holds what it should, and goes on with it.
  void ExpectHolds() {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(RecordsOf(log.get(), 0).size(), kCut);
    for (uint32_t bucket = 1; bucket < 4; ++bucket) {
      EXPECT_EQ(RecordsOf(log.get(), bucket).size(), kPerBucket) << bucket;
    }
    EXPECT_EQ(ReadSlot(*log, 1, kPerBucket - 1), ValueOf(kPerBucket - 1, 1));
  }
  // Entries of a bucket, in all of its segments. The store is closed.
  std::string KeysOf(uint32_t bucket, uint64_t begin) const {
    StoreFiles files;
    EXPECT_TRUE(OpenStoreFilesToRead(dir_.path(), &files).ok());
    const uint64_t end = files.slots.SlotEnd(bucket);
    std::string bytes(end * sizeof(format::KeyEntry), '\1');
    Region entries;
    EXPECT_TRUE(Region::Allocate(bytes.size(), /*huge_pages=*/false, &entries).ok());
    EXPECT_TRUE(files.slots.ReadKeys(bucket, 0, end, entries.data()).ok());
    std::memcpy(bytes.data(), entries.data(), bytes.size());
    return bytes.substr(begin * sizeof(format::KeyEntry));
  }
  static bool IsZero(const std::string& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
  }

  TempDir dir_;
  Options options_;
  uint64_t store_id_ = 0;
};

TEST_F(KeyLogCutTest, WithHolesNothingIsLeftBehindTheEnd) {
  EXPECT_FALSE(IsZero(KeysOf(0, kCut)));
  ExpectHolds();
  EXPECT_TRUE(IsZero(KeysOf(0, kCut)));
}

TEST_F(KeyLogCutTest, WithoutHolesItIsZeroed) {
  NoHoles hook;
  {
    const ScopedHook none(&hook);
    ExpectHolds();
  }
  EXPECT_TRUE(IsZero(KeysOf(0, kCut)));
  ExpectHolds();
}

// The bucket is written up to where entries of lost records lay, and power is lost again.
TEST_F(KeyLogCutTest, WithoutHolesWhatWasCutDoesNotComeBack) {
  const uint64_t group_records = options_.key_group_bytes / sizeof(format::KeyEntry);
  NoHoles hook;
  const ScopedHook none(&hook);
  for (const uint64_t end : {kCut, group_records}) {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(RecordsOf(log.get(), 0).size(), end);
    for (uint64_t i = end; i < group_records; ++i) {
      ASSERT_TRUE(log->Append(10'000 + i, ValueOf(i, 2).data()).ok());
    }
    Restart(dir_.path(), store_id_);
  }
}

// With damaged counts any entry of its log may be a record.
TEST_F(KeyLogCutTest, ABucketWithDamagedCountsKeepsItsLog) {
  const uint64_t damage = 1;
  Overwrite(dir_.Join(format::kStagingCountsName), &damage, sizeof(damage),
            1 * sizeof(format::BucketCounts));
  const std::string before = KeysOf(1, 0);
  NoHoles hook;
  const ScopedHook none(&hook);
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(IsZero(KeysOf(0, kCut)));
  EXPECT_TRUE(KeysOf(1, 0) == before);
}

}  // namespace
}  // namespace engine_race::test
