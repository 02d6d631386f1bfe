// Shared by the tests of staging: a store, and its expected content.
#ifndef TEST_FAULTS_STAGING_TEST_UTIL_H_
#define TEST_FAULTS_STAGING_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <string>
#include <vector>

#include "test/faults/call_watch.h"
#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

inline bool IsOn(const SystemCall& call, CallKind kind, const char* name) {
  return call.kind == kind && PathOfFd(call.fd).ends_with(name);
}

// After a call with that result: every file system is one whose files are mapped.
inline void PretendMapped(const SystemCall& call, long result) {
  if (call.kind != CallKind::kFstatFs || result != 0) return;
  static_cast<struct statfs*>(call.buffer)->f_type = EXT4_SUPER_MAGIC;
}

// A store whose groups of values are large enough to be populated in several steps.
inline Options OptionsOf(StagingMode mode) {
  Options options = TinyLogOptions();
  options.value_group_bytes = 16 * kValueBytes;
  options.staging_mode = mode;
  return options;
}

inline Status AppendTo(BucketLog* log, uint64_t key) {
  return log->Append(key, ValueOf(key, 1).data());
}

// Expects slot i of bucket 0 to be key keys[i], after a reopening in either way.
inline void ExpectReopens(const std::string& dir, const std::vector<uint64_t>& keys) {
  for (const StagingMode mode : {StagingMode::kWritten, StagingMode::kAuto}) {
    const auto log = OpenLog(OptionsOf(mode), dir);
    ASSERT_NE(log, nullptr);
    ASSERT_FALSE(log->BucketDamaged(0));
    ASSERT_EQ(log->RecordCount(0), keys.size());
    const std::vector<KeyRecord> records = RecordsOf(log.get(), 0);
    for (uint64_t slot = 0; slot < keys.size(); ++slot) {
      ASSERT_EQ(records[slot].key, keys[slot]);
      ASSERT_EQ(ReadSlot(*log, 0, slot), ValueOf(keys[slot], 1)) << "slot " << slot;
    }
  }
}

}  // namespace engine_race::test

#endif  // TEST_FAULTS_STAGING_TEST_UTIL_H_
