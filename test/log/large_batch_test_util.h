// Batches over the tiny geometry that are too large for staging, in two sync modes.
#ifndef TEST_LOG_LARGE_BATCH_TEST_UTIL_H_
#define TEST_LOG_LARGE_BATCH_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "engine_race/log/batch_format.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {

// More groups of a bucket than there are places.
inline constexpr uint64_t kTooMany = 60;

// Whether the call stores the commit word of a large batch.
inline bool CommitsLargeBatch(const SystemCall& call) {
  uint64_t word = 0;
  if (call.kind != CallKind::kPwrite || call.size != sizeof(word) ||
      call.offset != format::kLargeIntent * format::kBatchIntentBytes ||
      !PathOf(call).ends_with(format::kBatchesName)) {
    return false;
  }
  std::memcpy(&word, call.data, sizeof(word));
  return word != 0;
}

class LargeBatchTest : public ::testing::TestWithParam<SyncMode> {
 protected:
  LargeBatchTest() {
    options_.sync_mode = GetParam();
    options_.journal_bytes = kMinJournalBytes;
  }

  TempDir dir_;
  Options options_ = TinyLogOptions();
};

}  // namespace engine_race::test

#endif  // TEST_LOG_LARGE_BATCH_TEST_UTIL_H_
