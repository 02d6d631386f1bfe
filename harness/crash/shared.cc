#include "harness/crash/shared.h"

#include <algorithm>
#include <cstring>

namespace engine_race::crash {

void Report::LineList::Add(std::string_view text) {
  const uint32_t i = count.fetch_add(1);
  if (i >= kLineCount) return;
  Line& line = lines[i];
  const size_t size = std::min(text.size(), kLineBytes);
  std::memcpy(line.text, text.data(), size);
  line.size.store(static_cast<uint32_t>(size));
}

// Skips lines of size 0: their writer was killed before it finished them.
std::vector<std::string> Report::LineList::Lines() const {
  std::vector<std::string> all;
  for (uint32_t i = 0; i < std::min<uint32_t>(count.load(), kLineCount); ++i) {
    const uint32_t size = lines[i].size.load();
    if (size > 0) all.emplace_back(lines[i].text, size);
  }
  if (count.load() > kLineCount) {
    all.push_back("... " + std::to_string(count.load() - kLineCount) + " more");
  }
  return all;
}

void Report::LineList::Clear() {
  for (Line& line : lines) line.size.store(0);
  count.store(0);
}

void Report::Clear() {
  body_[0].violations.Clear();
  body_[0].log.Clear();
  SetPhase(Phase::kStart);
}

}  // namespace engine_race::crash
