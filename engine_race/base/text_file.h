// Small files of /proc and /sys, read whole.
#ifndef ENGINE_RACE_BASE_TEXT_FILE_H_
#define ENGINE_RACE_BASE_TEXT_FILE_H_

#include <string>

namespace engine_race {

// The contents of a file, its first 4 MiB at most; empty when it cannot be read. Thread-safe.
std::string ReadTextFile(const std::string& path);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_TEXT_FILE_H_
