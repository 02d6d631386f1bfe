// A hook of system calls that is made of a function, and what it may answer.
#ifndef TEST_FAULTS_CALL_WATCH_H_
#define TEST_FAULTS_CALL_WATCH_H_

#include <cerrno>
#include <functional>
#include <utility>

#include "test/faults/system_calls.h"

namespace engine_race::test {

// A hook's answer to a call that fails.
inline long Refuse(int error) {
  errno = error;
  return -1;
}

// Shows each system call to a function of the test's, which makes it or answers in its place.
class CallWatch : public SystemCallHook {
 public:
  using Fn = std::function<long(SystemCall* call)>;
  explicit CallWatch(Fn on_call) : on_call_(std::move(on_call)) {}
  long OnCall(SystemCall* call) override { return on_call_(call); }

 private:
  const Fn on_call_;
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_CALL_WATCH_H_
