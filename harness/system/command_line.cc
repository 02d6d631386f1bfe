#include "harness/system/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine_race/base/nearest_name.h"
#include "harness/system/exit_codes.h"
#include "include/engine_race_c.h"

namespace engine_race::harness {
namespace {

std::string VersionLine(const std::string& program) {
  return program + " (engine_race) " + engine_race_version();
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& names) {
  return engine_race::DidYouMean(word, std::vector<std::string_view>(names.begin(), names.end()));
}

std::vector<CLI::App*> CommandsOf(CLI::App* app) {
  return app->get_subcommands([](const CLI::App*) { return true; });
}

// Returns nothing for a text that is a number of that kind, otherwise what is wrong with it. CLI11
// itself takes -1 and numbers that are too large for 2^64 - 1, and "nan" for a number in any range.
std::string WrongInteger(const std::string& text, bool has_sign) {
  if (!has_sign && text.find('-') != std::string::npos) {
    return "'" + text + "' is no whole number from 0 on";
  }
  char* end = nullptr;
  errno = 0;
  if (has_sign) {
    static_cast<void>(std::strtoll(text.c_str(), &end, 0));
  } else {
    static_cast<void>(std::strtoull(text.c_str(), &end, 0));
  }
  if (text.empty() || *end != '\0') return "'" + text + "' is no whole number";
  return errno == ERANGE ? "'" + text + "' is too large a number" : std::string();
}

// No flag has a use for numbers below 0.
std::string WrongNumber(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || std::isnan(number)) return "'" + text + "' is no number";
  if (number < 0) return "'" + text + "' is below 0";
  return std::isinf(number) ? "'" + text + "' is too large a number" : std::string();
}

// A size such as 2G is a number once CLI11 has transformed it.
std::string WrongSize(const std::string& text) {
  return text.find('-') == std::string::npos ? std::string() : "'" + text + "' is no size";
}

// Gives each option that is a number a check that comes before all its other checks.
void CheckNumbers(CLI::App* app) {
  for (CLI::Option* const option : app->get_options([](const CLI::Option*) { return true; })) {
    const std::string type = option->get_type_name();
    if (type.find("SIZE") != std::string::npos) {
      option->transform(CLI::Validator([](std::string& text) { return WrongSize(text); }, ""));
    } else if (type.starts_with("UINT")) {
      option->transform(
          CLI::Validator([](std::string& text) { return WrongInteger(text, false); }, ""));
    } else if (type.starts_with("INT")) {
      option->transform(
          CLI::Validator([](std::string& text) { return WrongInteger(text, true); }, ""));
    } else if (type.starts_with("FLOAT")) {
      option->transform(CLI::Validator([](std::string& text) { return WrongNumber(text); }, ""));
    }
  }
  for (CLI::App* const command : CommandsOf(app)) CheckNumbers(command);
}

// Has the help show the default of each option. One that is empty or 0 says nothing: the option's
// own text says what happens then.
void ShowDefaults(CLI::App* app) {
  for (CLI::Option* const option : app->get_options([](const CLI::Option*) { return true; })) {
    if (option->get_expected_max() == 0 || !option->get_default_str().empty()) continue;
    option->capture_default_str();
    for (const char* const nothing : {"0", "-1", "[]", "\"\""}) {
      if (option->get_default_str() == nothing) option->default_str("");
    }
  }
  for (CLI::App* const command : CommandsOf(app)) ShowDefaults(command);
}

// Returns nothing, or which command a program does not have. Options of the program itself take no
// values where there are commands.
std::string WrongCommand(int argc, char** argv, CLI::App* app) {
  const std::vector<CLI::App*> commands = CommandsOf(app);
  const auto* const word = std::find_if(
      argv + std::min(argc, 1), argv + argc,
      [](const char* argument) { return !std::string_view(argument).starts_with("-"); });
  if (commands.empty() || word == argv + argc) return {};
  std::vector<std::string> names;
  for (const CLI::App* const command : commands) {
    if (command->get_name() == *word) return {};
    // The help does not show a command without a group.
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return UnknownName("command", *word, names);
}

// Returns nothing, or which flag was given that there is not.
std::string WrongFlag(CLI::App* app) {
  std::vector<CLI::App*> chosen = {app};
  for (CLI::App* const command : app->get_subcommands()) chosen.push_back(command);
  std::vector<std::string> names;
  for (CLI::App* const one : chosen) {
    for (const CLI::Option* const option : one->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  for (const std::string& given : app->remaining(/*recurse=*/true)) {
    const std::string flag = given.substr(0, given.find('='));
    if (flag.starts_with("--")) return "unknown flag " + flag + DidYouMean(flag, names);
  }
  return {};
}

int RefuseUsage(const std::string& program, const std::string& why) {
  return Refuse(program, why + "\nRun with --help for more information.");
}

}  // namespace

std::optional<int> ParseCommandLine(const std::string& program, int argc, char** argv,
                                    CLI::App* app) {
  app->set_version_flag("--version", VersionLine(program), "Print name and version and exit");
  app->footer(kExitCodesHelp);
  for (CLI::App* const command : CommandsOf(app)) command->footer(kExitCodesHelp);
  CheckNumbers(app);
  ShowDefaults(app);
  const std::string wrong_command = WrongCommand(argc, argv, app);
  if (!wrong_command.empty()) return RefuseUsage(program, wrong_command);
  try {
    app->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // Calls for the help and the version come as errors.
    if (error.get_exit_code() == 0) return app->exit(error);
    // A flag that is unknown comes first: CLI11 may miss what it was meant to give.
    const std::string wrong_flag = WrongFlag(app);
    return RefuseUsage(program, wrong_flag.empty() ? error.what() : wrong_flag);
  }
}

std::string ListOf(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string UnknownName(const std::string& kind, const std::string& word,
                        const std::vector<std::string>& names) {
  const std::string text = "unknown " + kind + " " + word;
  const std::string meant = DidYouMean(word, names);
  if (!meant.empty()) return text + meant;
  return text + "; there are " + ListOf(names);
}

CLI::Validator OneOf(const std::string& kind, const std::vector<std::string>& names) {
  return CLI::Validator(
      [kind, names](const std::string& word) {
        const bool is_one = std::find(names.begin(), names.end(), word) != names.end();
        return is_one ? std::string() : UnknownName(kind, word, names);
      },
      CLI::detail::generate_set(names));
}

CLI::Validator AboveZero() {
  return CLI::Validator(
      [](const std::string& text) {
        // Other checks have found a number in `text`.
        const bool is_above = std::strtod(text.c_str(), nullptr) > 0;
        return is_above ? std::string() : "'" + text + "' is not above 0";
      },
      "POSITIVE");
}

bool PrintedVersion(const std::string& program, int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != "--version") return false;
  return std::puts(VersionLine(program).c_str()) >= 0;
}

}  // namespace engine_race::harness
