// Shared by the wrapped calls: the way to the hook.
//
// Internal to system_calls*.cc. Thread-safe.
#ifndef TEST_FAULTS_SYSTEM_CALLS_DISPATCH_H_
#define TEST_FAULTS_SYSTEM_CALLS_DISPATCH_H_

#include "test/faults/system_calls.h"

namespace engine_race::test {

// Asks the hook, or makes the call when there is none.
long Dispatch(SystemCall call);

SystemCall CallOn(CallKind kind, int fd);

}  // namespace engine_race::test

#endif  // TEST_FAULTS_SYSTEM_CALLS_DISPATCH_H_
