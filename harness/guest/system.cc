#include "harness/guest/system.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace engine_race::guest {

std::string Argument(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t Number(const char* name) { return std::strtoull(Argument(name).c_str(), nullptr, 10); }

void Say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) return;
}

[[noreturn]] void End() {
  ::tcdrain(STDOUT_FILENO);
  ::reboot(RB_AUTOBOOT);
  std::abort();
}

[[noreturn]] void EndWith(const std::string& line) {
  Say(line);
  End();
}

void WriteText(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) < 0) Say(std::string("cannot write ") + path);
  ::close(fd);
}

[[noreturn]] void BecomeProgram(const std::vector<std::string>& args) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int WaitFor(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int RunProgram(const std::vector<std::string>& args) {
  const pid_t child = ::fork();
  if (child == 0) BecomeProgram(args);
  return WaitFor(child);
}

std::string OneLine(const std::string& path) {
  std::ifstream file(path);
  std::string all;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) all += line.substr(begin);
  }
  return all;
}

void ResetAfter(uint64_t ms) {
  std::thread([ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    WriteText("/proc/sysrq-trigger", "b");
  }).detach();
}

Status Mount(const std::string& device, const char* dir, const char* type) {
  ::mkdir(dir, 0755);
  const bool mounted = ::mount(device.c_str(), dir, type, 0, nullptr) == 0;
  return mounted ? Status::Ok() : Status::FromErrno("mount " + device, errno);
}

void MountSystem() {
  for (const auto& [type, dir] :
       {std::pair("proc", "/proc"), std::pair("sysfs", "/sys"), std::pair("devtmpfs", "/dev")}) {
    static_cast<void>(Mount(type, dir, type));  // a test says what it lacks
  }
  const int console = ::open("/dev/ttyS0", O_RDWR | O_NOCTTY);
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(console, fd);
}

}  // namespace engine_race::guest
