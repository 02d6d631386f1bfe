#include "harness/load/store_basics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

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

bool IsStoreFile(const std::string& name) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"manifest", "key_", "value_", "staging_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void RemoveStoreFiles(const std::string& dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.is_regular_file(error) && IsStoreFile(entry.path().filename().string())) {
      fs::remove(entry.path(), error);
    }
  }
  sync();
}

}  // namespace harness
