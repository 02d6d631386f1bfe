// Collects the messages of a log callback, for tests that look at them.
//
// Thread-safe.
#ifndef TEST_LOG_LINES_H_
#define TEST_LOG_LINES_H_

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/options.h"

namespace engine_race::test {

// Collects what the engine logs. Outlives the store that is opened with its options.
class LogLines {
 public:
  LogFn Callback() {
    return [this](LogLevel, std::string_view message) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.emplace_back(message);
    };
  }
  std::vector<std::string> lines() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  // Whether a line has these words.
  bool Said(std::string_view words) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(), [words](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }
  // All lines, each with its end.
  std::string text() const {
    std::string text;
    for (const std::string& line : lines()) text += line + "\n";
    return text;
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_LINES_H_
