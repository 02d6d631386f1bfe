// Failing system calls on the files of the index.
#ifndef TEST_INDEX_FAIL_INDEX_CALLS_H_
#define TEST_INDEX_FAIL_INDEX_CALLS_H_

#include <atomic>
#include <cerrno>
#include <limits>
#include <string>

#include "engine_race/base/memory.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {

// Answers calls of one kind on the files of the index with an error, or with a part of the bytes.
class FailIndexCalls final : public SystemCallHook {
 public:
  FailIndexCalls(CallKind kind, int error) : kind_(kind), error_(error) {}
  long OnCall(SystemCall* call) override {
    const bool is_meant = is_failing && call->kind == kind_ && IsIndexFile(PathOf(*call));
    if (!is_meant || count >= limit) return call->Proceed();
    ++count;
    if (error_ == 0) {
      call->size = call->size > kIoAlignment ? kIoAlignment : 0;
      return call->Proceed();
    }
    errno = error_;
    return -1;
  }

  std::atomic<bool> is_failing{true};
  std::atomic<int> count{0};
  // The failures after which no call fails.
  std::atomic<int> limit{std::numeric_limits<int>::max()};

 private:
  static bool IsIndexFile(const std::string& path) {
    return path.find("/key_index_") != std::string::npos;
  }

  const CallKind kind_;
  const int error_;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_FAIL_INDEX_CALLS_H_
