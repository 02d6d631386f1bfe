#include "engine_race/base/cpu_quota.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>
#include <string_view>

#include "engine_race/base/text_file.h"

namespace engine_race {
namespace {

// The number that `text` begins with; nullopt for none, for zero and for one too large.
std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  return number;
}

// Both in microseconds. A negative quota and "max" are no numbers, and no quota.
uint32_t CpusOf(std::string_view quota_text, std::string_view period_text) {
  const std::optional<uint64_t> quota = Number(quota_text);
  const std::optional<uint64_t> period = Number(period_text);
  if (!quota || !period) return kNoCpuQuota;
  const uint64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<uint32_t>(std::min<uint64_t>(cpus, kNoCpuQuota));
}

uint32_t QuotaOfGroup(const FileReaderFn& read, const std::string& directory, bool unified) {
  if (!unified) {
    return CpusOf(read(directory + "/cpu.cfs_quota_us"), read(directory + "/cpu.cfs_period_us"));
  }
  const std::string limit = read(directory + "/cpu.max");
  const size_t blank = limit.find(' ');
  if (blank == std::string::npos) return kNoCpuQuota;
  return CpusOf(std::string_view(limit).substr(0, blank),
                std::string_view(limit).substr(blank + 1));
}

}  // namespace

uint32_t CpuQuotaFrom(const FileReaderFn& read) {
  uint32_t least = kNoCpuQuota;
  VisitControlGroups(read, "cpu", [&](const std::string& directory, bool unified) {
    least = std::min(least, QuotaOfGroup(read, directory, unified));
  });
  return least;
}

uint32_t CpuQuota() noexcept {
  try {
    return CpuQuotaFrom(ReadTextFile);
  } catch (const std::bad_alloc&) {
    return kNoCpuQuota;
  }
}

}  // namespace engine_race
