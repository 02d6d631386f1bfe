#include "harness/tools/store_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/stats_text.h"
#include "engine_race/store.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

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

// Splits a line into words: at spaces, except between quotes. There a backslash takes away the
// meaning of a quote or backslash behind it. Returns nothing, or why the line is refused.
std::string SplitWords(const std::string& text, std::vector<std::string>* words) {
  bool is_in_word = false;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '\0') return "a line has a zero byte";
    if (!is_quoted && std::isspace(static_cast<unsigned char>(byte)) != 0) {
      is_in_word = false;
      continue;
    }
    if (!is_in_word) words->emplace_back();
    is_in_word = true;
    if (byte == '"') {
      is_quoted = !is_quoted;
      continue;
    }
    const bool is_escape = is_quoted && byte == '\\' && i + 1 < text.size();
    if (is_escape && (text[i + 1] == '"' || text[i + 1] == '\\')) byte = text[++i];
    words->back() += byte;
  }
  return is_quoted ? "a quote is not closed" : "";
}

// Runs one line. Returns its exit code, or nothing for `quit`.
std::optional<int> Run(const std::string& text, const std::string& dir, Store* store) {
  // The first word is the program's name.
  std::vector<std::string> words = {"store"};
  const std::string wrong = SplitWords(text, &words);
  if (!wrong.empty()) return Refuse("store", wrong);
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
  Status status = Print(printed);
  const Status flushed = FlushOutput();
  if (status.ok()) status = flushed;
  return status.ok() ? kExitDone : Refuse("shell", dir, status);
}

}  // namespace

int RunShell(const std::string& dir, bool read_only, bool creates, uint32_t value_bytes) {
  Options options = CommandOptions();
  options.value_bytes = value_bytes;
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
