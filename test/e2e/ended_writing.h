// Ends writing to a store: the device fails under a large batch, of which nothing is counted.
//
// Stateless.
#ifndef TEST_E2E_ENDED_WRITING_H_
#define TEST_E2E_ENDED_WRITING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "engine_race/base/write_batch.h"
#include "engine_race/store.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {

// Fails every write of values after the first two.
class LoseValueFiles : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    constexpr int kGoodCount = 2;
    const bool is_meant = call->kind == CallKind::kPwrite &&
                          PathOf(*call).find("/source/value_") != std::string::npos;
    if (!is_meant || ++count_ <= kGoodCount) return call->Proceed();
    errno = EIO;
    return -1;
  }

 private:
  std::atomic<int> count_{0};
};

// The batch has records in each quarter of the keys, more than staging has room for.
inline void EndWriting(Store* store) {
  WriteBatch batch;
  for (uint64_t quarter = 0; quarter < 4; ++quarter) {
    for (uint64_t i = 0; i < 300; ++i) {
      const uint64_t key = (quarter << 62) + i;
      ASSERT_TRUE(batch.Put(KeyOf(key), ValueOf(key, 1)).ok());
    }
  }
  LoseValueFiles lost;
  const ScopedHook hook(&lost);
  ASSERT_EQ(store->Write(batch).code(), Code::kIOError);
}

}  // namespace engine_race::test

#endif  // TEST_E2E_ENDED_WRITING_H_
