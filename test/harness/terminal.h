// Runs a program on a terminal of its own, as a user at a keyboard does.
#ifndef TEST_HARNESS_TERMINAL_H_
#define TEST_HARNESS_TERMINAL_H_

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

namespace engine_race::harness {

struct TerminalResult {
  // The exit status; -1 when the program could not be run, or ended by a signal.
  int exit_code = -1;
  // Everything that it wrote to the terminal. Each of its lines ends with "\r\n" there.
  std::string output;
};

// Keys that are typed once the output has the text, which is looked for behind the one before it.
struct TypedKeys {
  std::string after;
  std::string keys;
};

// Runs args[0] and waits for it. Its standard input, output and error are a terminal of `columns`
// columns; 0: a terminal that does not know its width.
inline TerminalResult RunOnTerminal(std::vector<std::string> args, uint16_t columns = 0,
                                    const std::vector<TypedKeys>& typed = {}) {
  std::vector<char*> words;
  words.reserve(args.size() + 1);
  for (std::string& arg : args) words.push_back(arg.data());
  words.push_back(nullptr);
  TerminalResult result;
  int terminal = -1;
  winsize size = {};
  size.ws_col = columns;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) return result;
  if (child == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  std::array<char, 4096> piece;
  auto next = typed.begin();
  size_t seen_bytes = 0;
  while (true) {
    const ssize_t size = ::read(terminal, piece.data(), piece.size());
    // EIO: the last program on the terminal has ended.
    if (size == 0 || (size < 0 && errno != EINTR)) break;
    if (size > 0) result.output.append(piece.data(), static_cast<size_t>(size));
    const size_t found =
        next == typed.end() ? std::string::npos : result.output.find(next->after, seen_bytes);
    if (found == std::string::npos) continue;
    seen_bytes = found + next->after.size();
    if (::write(terminal, next->keys.data(), next->keys.size()) < 0) break;
    ++next;
  }
  ::close(terminal);
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_TERMINAL_H_
