#include "harness/load/store_basics.h"

#include <cstdio>
#include <string_view>

#include "engine_race/base/key.h"

namespace harness {

engine_race::Options QuietOptions() {
  engine_race::Options options;
  options.log = [](engine_race::LogLevel level, std::string_view message) {
    if (level == engine_race::LogLevel::kInfo) return;
    std::fprintf(stderr, "engine: %.*s\n", static_cast<int>(message.size()), message.data());
  };
  return options;
}

std::string KeyBytesOf(uint64_t key) {
  std::string bytes(engine_race::kKeyBytes, '\0');
  engine_race::EncodeKey(key, bytes.data());
  return bytes;
}

uint64_t StoreBytes(uint64_t record_count) {
  constexpr uint64_t kRecordBytes = 4096 + 16;
  constexpr uint64_t kStagingBytes = uint64_t{512} << 20;
  return record_count * kRecordBytes + kStagingBytes;
}

uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed) {
  // A mixed phase overwrites about half as many records as there are, and what it overwrites keeps
  // its place. Chance decides how many, so all of them are counted.
  const uint64_t mixed_bytes = has_mixed ? record_count * engine_race::kValueBytes : 0;
  return (has_write ? StoreBytes(record_count) : 0) + mixed_bytes;
}

std::optional<engine_race::NumaOptions> ParseNuma(std::string_view text) {
  using engine_race::NumaMode;
  const std::string_view mode = text.substr(0, text.find(':'));
  engine_race::NumaOptions numa;
  numa.mode = mode == "bind"         ? NumaMode::kBind
              : mode == "interleave" ? NumaMode::kInterleave
                                     : NumaMode::kNone;
  if (numa.mode == NumaMode::kNone) return text == "none" ? std::optional(numa) : std::nullopt;
  // Without nodes memory can be spread over all of them, but bound to none.
  if (mode.size() == text.size()) {
    return numa.mode == NumaMode::kInterleave ? std::optional(numa) : std::nullopt;
  }
  if (!engine_race::numa::ParseList(text.substr(mode.size() + 1), engine_race::numa::kMaxNodeCount,
                                    &numa.nodes) ||
      numa.nodes.empty()) {
    return std::nullopt;
  }
  return numa;
}

std::optional<uint32_t> MissingNode(const engine_race::NumaOptions& numa,
                                    const engine_race::numa::Topology& topology) {
  for (const uint32_t node : numa.nodes) {
    if (topology.Find(node) == nullptr) return node;
  }
  return std::nullopt;
}

}  // namespace harness
