#include "harness/system/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "engine_race/base/text_file.h"

namespace harness {
namespace {

// A group of v1 without a limit shows the largest number of whole pages.
constexpr uint64_t kNoLimitFrom = uint64_t{1} << 62;

}  // namespace

std::optional<uint64_t> MemoryLimitFrom(const engine_race::FileReaderFn& read) {
  std::optional<uint64_t> least;
  engine_race::VisitControlGroups(read, "memory", [&](const std::string& directory, bool unified) {
    const std::string text = read(directory + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
    uint64_t limit = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), limit);
    // "max" is no number.
    if (parsed.ec != std::errc() || limit >= kNoLimitFrom) return;
    least = std::min(least.value_or(limit), limit);
  });
  return least;
}

std::optional<uint64_t> MemoryLimitBytes() { return MemoryLimitFrom(engine_race::ReadTextFile); }

}  // namespace harness
