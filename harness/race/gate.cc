#include "harness/race/gate.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

namespace engine_race::harness {
namespace {

// A reader that has gone must be an error of the write, not the end of this process.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() : before_(::signal(SIGPIPE, SIG_IGN)) {}
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  IgnoredPipeSignal& operator=(const IgnoredPipeSignal&) = delete;
  ~IgnoredPipeSignal() {
    if (before_ != SIG_ERR) ::signal(SIGPIPE, before_);
  }

 private:
  void (*before_)(int);
};

// A line is shorter than a pipe's atomic write.
bool SayLine(int fd, const std::string& line) {
  const IgnoredPipeSignal ignored;
  const std::string text = line + "\n";
  ssize_t written = 0;
  do {
    written = ::write(fd, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(text.size());
}

bool HearLine(int fd) {
  char byte = 0;
  while (byte != '\n') {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
  }
  return true;
}

}  // namespace

bool PassGate(const GateFds& fds, const std::string& line) {
  return fds.out < 0 || (SayLine(fds.out, line) && HearLine(fds.in));
}

}  // namespace engine_race::harness
