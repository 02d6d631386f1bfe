// `bin/store shell`: one store, open for many commands.
//
// At a terminal it prompts. Where libedit was there to build with, lines can be edited and called
// back, and the tab key completes names of commands and files.
#ifndef HARNESS_TOOLS_STORE_SHELL_H_
#define HARNESS_TOOLS_STORE_SHELL_H_

#include <string>

namespace engine_race::harness {

// Opens the store and runs the commands of standard input, a line each, until it ends or one is
// `quit`. Values have `value_bytes` if that is not 0. A command that fails does not end the shell.
// Returns the exit code: the highest one of a command, but 0 for a person at a terminal.
int RunShell(const std::string& dir, bool read_only, bool creates, uint32_t value_bytes);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_SHELL_H_
