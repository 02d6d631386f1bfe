// Runs other programs, and this program again, and collects their output.
//
// Children share this process's standard error. When the user interrupts, they get SIGTERM.
#ifndef HARNESS_SYSTEM_CHILD_PROCESS_H_
#define HARNESS_SYSTEM_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::harness {

struct ChildResult {
  // False when it could not be started; `error` says why.
  bool started = false;
  std::string error;
  // The exit status, or 128 + the signal that ended it.
  int exit_code = -1;
  // It was killed because its time was up.
  bool timed_out = false;
  // All that it wrote to its standard output.
  std::string output;
};

// Runs args[0], looked up in PATH, and waits for it. A child that still has its standard output
// open after `timeout_seconds` is killed; 0: it may take as long as it likes. A child that is
// started after an interrupt gets its SIGTERM at once.
ChildResult RunChild(const std::vector<std::string>& args, double timeout_seconds = 0);

// Asks the kernel to kill this process when the thread that started it ends. False when `parent`,
// the process of that thread, has ended already.
[[nodiscard]] bool DieWithParent(pid_t parent);

// The path of the program that is running.
std::string SelfPath();

// From now on SIGINT, SIGTERM and SIGHUP end the running child instead of this process, which then
// cleans up after itself. A SIGHUP that is ignored stays so.
void CatchInterrupts();
bool Interrupted();
// The status of a run that the user has interrupted.
Status InterruptedStatus();

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_CHILD_PROCESS_H_
