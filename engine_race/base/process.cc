#include "engine_race/base/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace engine_race {
namespace {

// Programs may have any bytes in their names; these are shown to people.
std::string Printable(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

}  // namespace

ProcessName ThisProcess() {
  struct stat info;
  ProcessName process;
  process.number = static_cast<uint64_t>(::getpid());
  if (::stat("/proc/self/ns/pid", &info) == 0) process.pid_namespace = info.st_ino;
  process.program = Printable(program_invocation_short_name);
  return process;
}

bool IsRunning(uint64_t process_number) {
  // EPERM: it is another user's.
  return ::kill(static_cast<pid_t>(process_number), 0) == 0 || errno == EPERM;
}

std::string ToText(const ProcessName& process) {
  return std::to_string(process.number) + " " + std::to_string(process.pid_namespace) + " " +
         process.program;
}

ProcessName ParseProcessName(const std::string& text) {
  std::istringstream words(text);
  ProcessName process;
  words >> process.number >> process.pid_namespace;
  if (words.get() != ' ' || process.number > INT32_MAX) return {};
  std::getline(words, process.program);
  process.program = Printable(process.program);
  return process;
}

}  // namespace engine_race
