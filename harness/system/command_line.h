// The common part of all programs' command lines: --version, exit codes and errors. An error names
// the word that is wrong, and the one that was meant.
#ifndef HARNESS_SYSTEM_COMMAND_LINE_H_
#define HARNESS_SYSTEM_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace engine_race::harness {

// Parses a command line whose options and commands `app` has. Prints what is asked for or wrong.
// Returns the exit code when that is all. Every option that is a number refuses what is none.
std::optional<int> ParseCommandLine(const std::string& program, int argc, char** argv,
                                    CLI::App* app);

// Names with commas between.
std::string ListOf(const std::vector<std::string>& names);

// Says that there is no `kind` of the name `word`, with the name that was meant, or all names.
std::string UnknownName(const std::string& kind, const std::string& word,
                        const std::vector<std::string>& names);

// Takes only an option's value that is one of `names`, each a `kind`.
CLI::Validator OneOf(const std::string& kind, const std::vector<std::string>& names);

// Takes only a number above 0.
CLI::Validator AboveZero();

// For a program whose flags CLI11 does not parse.
bool PrintedVersion(const std::string& program, int argc, char** argv);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_COMMAND_LINE_H_
