// A kernel before Linux 5.14: pages cannot be populated for stores.
#ifndef TEST_FAULTS_NO_POPULATE_H_
#define TEST_FAULTS_NO_POPULATE_H_

#include <sys/mman.h>

#include <cerrno>

#include "test/faults/system_calls.h"

namespace engine_race::test {

class NoPopulate : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kMadvise || call->flags != MADV_POPULATE_WRITE) {
      return call->Proceed();
    }
    errno = EINVAL;
    return -1;
  }
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_NO_POPULATE_H_
