// For every test: temporary directories, keys, values that prove where they came from, and sizes
// that shrink under sanitizers.
//
// Header only, so that a test needs nothing else linked. Stateless but for TempDir, which owns its
// directory.
#ifndef TEST_TEST_UTIL_H_
#define TEST_TEST_UTIL_H_

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"

namespace engine_race::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif

// How large a test is: `release` in a plain build, `sanitized` under ASan or TSan.
constexpr uint64_t Sized(uint64_t release, uint64_t sanitized) {
  return kSanitized ? sanitized : release;
}

// Where tests of many small stores keep them: memory, if there is a file system of it with room.
inline std::filesystem::path FastParent() {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 30;
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool fits = !error && space.available >= kNeededBytes;
  return fits && ::access(memory.c_str(), W_OK) == 0 ? memory
                                                     : std::filesystem::temp_directory_path();
}

// The number in an environment variable, for tests that can be made longer, or run again as they
// were; `otherwise` where it is not set.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

// Whether ENGINE_PAGED_INDEX=1 in the environment asks for indexes larger than their memory.
inline bool IsPagedRun() { return FromEnvironment("ENGINE_PAGED_INDEX", 0) != 0; }

// The options that a store of a test is opened with. In a paged run no run of the index stays in
// memory, and the budget is the least. Extents and roots are written as often as can be.
inline Options AsRun(Options options) {
  if (!IsPagedRun()) return options;
  options.index_memory_bytes = 0;
  options.index_idle_ms = 1;
  // With 0 the store's values may be the largest.
  const uint32_t most_bytes = options.value_bytes == 0 ? kMaxValueBytes : options.value_bytes;
  options.memory_budget_bytes =
      std::min(options.memory_budget_bytes, LeastMemoryBudgetBytes(most_bytes));
  return options;
}

// A fresh directory below $TMPDIR, or where it is told, removed with everything in it when the
// object goes.
class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent) {
    std::string pattern = (parent / "engine_race_test.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
    }
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  // A path below it that need not exist.
  std::string Join(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// The 8 bytes of `key`.
inline std::string KeyOf(uint64_t key) {
  std::string bytes(kKeyBytes, '\0');
  EncodeKey(key, bytes.data());
  return bytes;
}

// One word of the value of (key, version). Words 0 and 1 name key and version. The others depend on
// both and on their position, so that any misplaced byte is found.
inline uint64_t ValueWord(uint64_t key, uint64_t version, uint32_t word) {
  if (word == 0) return key;
  if (word == 1) return version;
  const uint64_t base = (key * 0x9e3779b97f4a7c15) ^ (version * 0xc2b2ae3d27d4eb4f);
  return (base ^ (base >> 29)) + word * 0xd6e8feb86659fd93;
}

// A value that is too small for both names has neither.
inline void FillValue(uint64_t key, uint64_t version, char* value, size_t size = kValueBytes) {
  const uint32_t first = size < 16 ? 2 : 0;
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = ValueWord(key, version, first + static_cast<uint32_t>(at / 8));
    std::memcpy(value + at, &word, std::min(sizeof(word), size - at));
  }
}

inline constexpr uint64_t kLastKey = ~uint64_t{0};

// Fills memory that nothing may be written to.
inline constexpr char kUntouched = 0x5a;

// Sizes of values of every kind of layout: slots that share blocks, slots with padding behind their
// value, and slots of one block or many.
inline constexpr uint32_t kValueSizes[] = {8, 100, 512, 1536, 4096, 5000, 16384, 100'000, 1 << 20};

// The bytes of version `version` of `key`: different for each.
inline std::string ValueOf(uint64_t key, uint64_t version, size_t size = kValueBytes) {
  std::string value(size, '\0');
  FillValue(key, version, value.data(), size);
  return value;
}

// True when `value`, of `size` bytes, is ValueOf(key, v, size) for some v, given back. That takes
// 16 bytes; every byte is compared.
inline bool ParseValue(uint64_t key, std::string_view value, uint64_t* version,
                       size_t size = kValueBytes) {
  if (value.size() != size || size < 16) return false;
  std::memcpy(version, value.data() + 8, sizeof(*version));
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = ValueWord(key, *version, static_cast<uint32_t>(at / 8));
    if (std::memcmp(value.data() + at, &word, std::min(sizeof(word), size - at)) != 0) return false;
  }
  return true;
}

}  // namespace engine_race::test

#endif  // TEST_TEST_UTIL_H_
