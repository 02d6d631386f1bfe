// Small files of /proc and /sys, read whole.
#ifndef ENGINE_RACE_BASE_TEXT_FILE_H_
#define ENGINE_RACE_BASE_TEXT_FILE_H_

#include <string>

#include "engine_race/base/status.h"

namespace engine_race {

// The contents of a file, its first 4 MiB at most; empty when there is no such file. kIOError,
// naming the file, when it cannot be read. Thread-safe.
Status TryReadTextFile(const std::string& path, std::string* text);

// As TryReadTextFile, but empty also when the file cannot be read.
std::string ReadTextFile(const std::string& path);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_TEXT_FILE_H_
