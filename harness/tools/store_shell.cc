#include "harness/tools/store_shell.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/stats_text.h"
#include "engine_race/store.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/tools/store_command.h"
#include "harness/tools/store_records.h"

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

// A global, because the library's callbacks get no context.
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

// The command line of one line of the shell.
struct Line {
  explicit Line(const std::string& dir) {
    flags.in_shell = true;
    flags.dir = dir;
    AddRecordCommands(&app, &flags);
    stats = app.add_subcommand("stats", "print the counters of this opening");
    help = app.add_subcommand("help", "print this");
    quit = app.add_subcommand("quit", "end, as the end of the input does");
    app.require_subcommand(1);
  }

  CLI::App app{"Words with spaces go between \"quotes\". COMMAND --help says more.", ""};
  RecordFlags flags;
  CLI::App* stats;
  CLI::App* help;
  CLI::App* quit;
};

// Words are separated by spaces, except between quotes. The first one is the program's name.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words = {"store"};
  std::istringstream in(text);
  for (std::string word; in >> std::quoted(word);) words.push_back(word);
  return words;
}

// Runs one line. Returns its exit code, or nothing for `quit`.
std::optional<int> Run(const std::string& text, const std::string& dir, Store* store) {
  std::vector<std::string> words = WordsOf(text);
  if (words.size() == 1) return kExitDone;
  std::vector<char*> arguments;
  arguments.reserve(words.size());
  for (std::string& word : words) arguments.push_back(word.data());
  Line line(dir);
  const auto count = static_cast<int>(arguments.size());
  if (const auto code = ParseCommandLine("store", count, arguments.data(), &line.app)) return *code;
  if (*line.quit) return std::nullopt;
  if (const auto code = RunRecordCommand(line.app, line.flags, store)) return *code;
  // The help of a parsed line is that of its command.
  const std::string printed =
      *line.help ? Line(dir).app.help() : StatsText(store->Stats(), store->Latencies());
  std::fputs(printed.c_str(), stdout);
  return std::fflush(stdout) == 0 ? kExitDone : kExitRefused;
}

}  // namespace

int RunShell(const std::string& dir, bool read_only, bool creates) {
  Options options = CommandOptions();
  options.read_only = read_only;
  options.create_if_missing = creates;
  std::unique_ptr<Store> store;
  if (const Status opened = Store::Open(options, dir, &store); !opened.ok()) {
    return Refuse("shell", dir, opened);
  }
  std::vector<std::string> commands;
  Line line(dir);
  for (const CLI::App* const command : line.app.get_subcommands(nullptr)) {
    commands.push_back(command->get_name());
  }
  CompleteTo(std::move(commands));
  const bool is_at_terminal = ::isatty(STDIN_FILENO) == 1;
  int worst = kExitDone;
  while (const std::optional<std::string> text = is_at_terminal ? EditLine() : ReadLine()) {
    const std::optional<int> code = Run(*text, dir, store.get());
    if (!code) break;
    worst = std::max(worst, *code);
  }
  return is_at_terminal ? kExitDone : worst;
}

}  // namespace engine_race::harness
