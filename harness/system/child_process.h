// Runs other programs, and this program again, and collects their output.
//
// Children share this process's standard error. When the user interrupts, they get SIGTERM.
#ifndef HARNESS_SYSTEM_CHILD_PROCESS_H_
#define HARNESS_SYSTEM_CHILD_PROCESS_H_

#include <spawn.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
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

// Starts args[0], looked up in PATH, once `prepare` has said what it does not inherit. Returns 0 or
// an errno.
using PrepareSpawnFn = std::function<void(posix_spawn_file_actions_t*, posix_spawnattr_t*)>;
int Spawn(const std::vector<std::string>& args, const PrepareSpawnFn& prepare, pid_t* child);

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

// Work of this program in a process of its own: for clean memory, a cap on it, or a kill.
//
// The child is the same program, run again with a flag, the name of the work and its order. The
// order and the answer are JSON objects. The answer is the last line that the child prints. It has
// an "error" if the work has failed. A child dies with its parent.
//
// A program that starts children begins its main with ChildMain.

// The works of a child, by name. An exception of a work is a wrong order.
using ChildWork = Status (*)(const nlohmann::json& order, nlohmann::json* answer);
using ChildWorks = std::map<std::string, ChildWork>;

// Runs the work in a child whose time is limited; 0 seconds are no limit. Returns kIOError if the
// work has failed or the child gave no answer, and kIncomplete after an interrupt.
Status RunOwnChild(const std::string& work, const nlohmann::json& order, nlohmann::json* answer,
                   double timeout_seconds = 0);
// Runs work that is to end by SIGKILL. kIOError when it ends in another way.
Status RunKilledChild(const std::string& work, const nlohmann::json& order);

// The command of a child, for another program that starts it. A child that some `parent` has not
// started does nothing; 0: any process may have started it.
std::vector<std::string> ChildCommand(const std::string& work, const nlohmann::json& order,
                                      int parent = 0);

// Runs the work and returns the exit code, if this process was started as a child.
std::optional<int> ChildMain(int argc, char** argv, const ChildWorks& works);

// Prints an answer, which may have text that is not UTF-8.
void PrintAnswer(const nlohmann::json& answer);
// The answer that is the last line of this text; nothing when that is none.
std::optional<nlohmann::json> ParseAnswer(const std::string& text);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_CHILD_PROCESS_H_
