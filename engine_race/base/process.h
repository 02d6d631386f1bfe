// A process, as others may be told of it: its number, which is of a PID namespace, and its program.
//
// Values and stateless functions; thread-safe.
#ifndef ENGINE_RACE_BASE_PROCESS_H_
#define ENGINE_RACE_BASE_PROCESS_H_

#include <cstdint>
#include <string>

namespace engine_race {

struct ProcessName {
  uint64_t number = 0;  // 0: none is named
  // The inode of its PID namespace, of which a container has its own; 0 where /proc does not say.
  uint64_t pid_namespace = 0;
  std::string program;

  bool operator==(const ProcessName&) const = default;
};

ProcessName ThisProcess();
// Whether a process of that number runs in the PID namespace of this one.
bool IsRunning(uint64_t process_number);

// "4711 4026531836 python3", and back. A text of any other kind names no process.
std::string ToText(const ProcessName& process);
ProcessName ParseProcessName(const std::string& text);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PROCESS_H_
