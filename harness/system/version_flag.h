// The flag --version, which every program has. It prints the program's name and the version of the
// library, which include/engine_race_c.h defines.
//
// Stateless.
#ifndef HARNESS_SYSTEM_VERSION_FLAG_H_
#define HARNESS_SYSTEM_VERSION_FLAG_H_

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>

#include "include/engine_race_c.h"

namespace harness {

inline std::string VersionLine(const std::string& program) {
  return program + " (engine_race) " + engine_race_version();
}

inline void AddVersionFlag(const std::string& program, CLI::App* app) {
  app->set_version_flag("--version", VersionLine(program), "Print name and version and exit");
}

// For a program whose flags CLI11 does not parse.
inline bool PrintedVersion(const std::string& program, int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != "--version") return false;
  return std::puts(VersionLine(program).c_str()) >= 0;
}

}  // namespace harness

#endif  // HARNESS_SYSTEM_VERSION_FLAG_H_
