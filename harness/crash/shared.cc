#include "harness/crash/shared.h"

#include <algorithm>
#include <cstring>

namespace engine_race::crash {

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStart:
      return "start";
    case Phase::kOpen:
      return "open";
    case Phase::kWrite:
      return "write";
    case Phase::kFirstRead:
      return "first read";
    case Phase::kVerify:
      return "verify";
    case Phase::kClose:
      return "close";
    case Phase::kDone:
      return "done";
  }
  return "?";
}

template <size_t kLines>
void Report::LineList<kLines>::Add(std::string_view text) {
  const uint32_t i = count.fetch_add(1);
  if (i >= kLines) return;
  Line& line = lines[i];
  const size_t size = std::min(text.size(), kLineBytes);
  std::memcpy(line.text, text.data(), size);
  line.size.store(static_cast<uint32_t>(size));
}

// Skips lines of size 0: their writer was killed before it finished them.
template <size_t kLines>
std::vector<std::string> Report::LineList<kLines>::Lines() const {
  std::vector<std::string> all;
  for (uint32_t i = 0; i < std::min<uint32_t>(count.load(), kLines); ++i) {
    const uint32_t size = lines[i].size.load();
    if (size > 0) all.emplace_back(lines[i].text, size);
  }
  if (count.load() > kLines)
    all.push_back("... " + std::to_string(count.load() - kLines) + " more");
  return all;
}

template <size_t kLines>
void Report::LineList<kLines>::Clear() {
  for (Line& line : lines) line.size.store(0);
  count.store(0);
}

template struct Report::LineList<32>;
template struct Report::LineList<64>;

void Report::Clear() {
  body_[0].violations.Clear();
  body_[0].log.Clear();
  SetPhase(Phase::kStart);
}

}  // namespace engine_race::crash
