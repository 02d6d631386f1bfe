#include "engine_race/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <string>

#include "engine_race/base/text_file.h"

namespace engine_race {
namespace {

// A group of v1 without a limit shows the largest number of whole pages.
constexpr uint64_t kNoLimitFrom = uint64_t{1} << 62;

// A file of one number. "max" is none.
uint64_t LimitIn(const std::string& text) {
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool is_limit = error == std::errc() && bytes != 0 && bytes < kNoLimitFrom;
  return is_limit ? bytes : kNoMemoryLimit;
}

}  // namespace

uint64_t MemoryLimitFrom(const FileReaderFn& read) {
  uint64_t least = kNoMemoryLimit;
  VisitControlGroups(read, "memory", [&](const std::string& directory, bool unified) {
    if (unified) {
      least = std::min({least, LimitIn(read(directory + "/memory.max")),
                        LimitIn(read(directory + "/memory.high"))});
    } else {
      least = std::min(least, LimitIn(read(directory + "/memory.limit_in_bytes")));
    }
  });
  return least;
}

uint64_t MemoryLimit() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  const uint64_t machine_bytes =
      pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)
                                  : kNoMemoryLimit;
  try {
    return std::min(machine_bytes, MemoryLimitFrom(ReadTextFile));
  } catch (const std::bad_alloc&) {
    return machine_bytes;
  }
}

}  // namespace engine_race
