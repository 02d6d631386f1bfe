#include "harness/tools/store_prompt.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>

#if __has_include(<editline/readline.h>)
#include <editline/readline.h>
#define ENGINE_RACE_HAS_EDITLINE
#endif

namespace engine_race::harness {
namespace {

constexpr char kPrompt[] = "store> ";

std::optional<std::string> ReadLine() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

#ifdef ENGINE_RACE_HAS_EDITLINE

// Outside of Prompt, because the library's callbacks get no context.
std::vector<std::string> completed_commands;

// The next command that begins with `start`, allocated; null after the last one. `state` is 0 in
// the first call for a word.
char* NextCommand(const char* start, int state) {
  static size_t at = 0;
  if (state == 0) at = 0;
  while (at < completed_commands.size()) {
    const std::string& command = completed_commands[at++];
    if (command.starts_with(start)) return ::strdup(command.c_str());
  }
  return nullptr;
}

// Without an answer the library completes names of files.
char** Complete(const char* word, int begin, int) {
  return begin == 0 ? ::rl_completion_matches(word, NextCommand) : nullptr;
}

void CompleteTo(std::vector<std::string> commands) {
  completed_commands = std::move(commands);
  ::rl_attempted_completion_function = Complete;
}

std::optional<std::string> EditLine() {
  const std::unique_ptr<char, decltype(&std::free)> line(::readline(kPrompt), &std::free);
  if (line == nullptr) return std::nullopt;
  if (*line != '\0') ::add_history(line.get());
  return line.get();
}

#else

void CompleteTo(const std::vector<std::string>&) {}

std::optional<std::string> EditLine() {
  std::cout << kPrompt << std::flush;
  return ReadLine();
}

#endif

}  // namespace

Prompt::Prompt(std::vector<std::string> commands) : is_at_terminal_(::isatty(STDIN_FILENO) == 1) {
  CompleteTo(std::move(commands));
}

std::optional<std::string> Prompt::Next() { return is_at_terminal_ ? EditLine() : ReadLine(); }

}  // namespace engine_race::harness
