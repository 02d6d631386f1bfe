#include "engine_race/base/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace engine_race {
namespace {

// Takes a number and the space behind it off `text`.
bool TakeNumber(std::string_view* text, uint64_t* number) {
  const char* const end = text->data() + text->size();
  const std::from_chars_result read = std::from_chars(text->data(), end, *number);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != ' ') return false;
  text->remove_prefix(static_cast<size_t>(read.ptr - text->data()) + 1);
  return true;
}

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

// Without streams, which a program without any would link for this alone: half a megabyte.
ProcessName ParseProcessName(const std::string& text) {
  std::string_view rest = text;
  ProcessName process;
  if (!TakeNumber(&rest, &process.number) || !TakeNumber(&rest, &process.pid_namespace) ||
      process.number > INT32_MAX) {
    return {};
  }
  process.program = Printable(std::string(rest.substr(0, rest.find('\n'))));
  return process;
}

}  // namespace engine_race
