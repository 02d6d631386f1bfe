// Children that run under a hook of system calls, which may kill them.
//
// To be called by a process that has no store open and one thread.
#ifndef TEST_FAULTS_DYING_CHILD_H_
#define TEST_FAULTS_DYING_CHILD_H_

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

#include "test/faults/system_calls.h"

namespace engine_race::test {

enum class End : uint8_t { kKilled, kFinished, kFailed };

// Forks; the child runs `run` under `hook` and leaves without any library's exit code. One that
// hangs has failed.
inline End InChildUnder(SystemCallHook* hook, const std::function<bool()>& run) {
  constexpr unsigned int kPatienceSeconds = 60;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kPatienceSeconds);
    const ScopedHook scope(hook);
    ::syscall(SYS_exit_group, run() ? 0 : 1);
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return End::kFailed;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return End::kKilled;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? End::kFinished : End::kFailed;
}

}  // namespace engine_race::test

#endif  // TEST_FAULTS_DYING_CHILD_H_
