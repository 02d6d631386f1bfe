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

}  // namespace harness
