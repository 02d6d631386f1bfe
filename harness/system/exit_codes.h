// The exit codes of all programs, how they refuse, and text about the codes for --help and manuals.
#ifndef HARNESS_SYSTEM_EXIT_CODES_H_
#define HARNESS_SYSTEM_EXIT_CODES_H_

#include <cstdio>
#include <string>

namespace engine_race::harness {

inline constexpr int kExitDone = 0;
// The program did what it was asked for, and found a failure.
inline constexpr int kExitFailure = 1;
// The program could not do what it was asked for.
inline constexpr int kExitRefused = 2;
// By SIGINT or SIGTERM: what a shell says of a program that the first one ended.
inline constexpr int kExitInterrupted = 130;

inline constexpr char kExitCodesHelp[] =
    "Exit codes:\n"
    "  0      done, and all is well\n"
    "  1      done, and something failed: a damaged record, a missing key, a phase, a benchmark\n"
    "  2      not done: a wrong command line, or files that cannot be used\n"
    "  130    interrupted";

// Prints why the program cannot run as asked. Returns the exit code for that.
inline int Refuse(const std::string& program, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), why.c_str());
  return kExitRefused;
}

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_EXIT_CODES_H_
