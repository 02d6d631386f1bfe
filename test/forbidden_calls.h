// Takes system calls away from the process, as containers do it.
//
// For a process that ends soon, such as a forked child: the calls do not come back.
#ifndef TEST_FORBIDDEN_CALLS_H_
#define TEST_FORBIDDEN_CALLS_H_

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace engine_race::test {

// From now on the calls give EPERM in this thread and in those that it starts. `numbers` are SYS_
// constants. False where the kernel has no filters of system calls.
inline bool ForbidCalls(std::initializer_list<uint32_t> numbers) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const uint32_t number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace engine_race::test

#endif  // TEST_FORBIDDEN_CALLS_H_
