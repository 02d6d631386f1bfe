// Images and blocks for the tests of the index on disk.
//
// Stateless but for their objects.
#ifndef TEST_L1_EXTENT_TEST_UTIL_H_
#define TEST_L1_EXTENT_TEST_UTIL_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/l1/extent_store.h"
#include "test/test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kExtentStoreId = 0x1234567812345678;

// The word that the tests put beside a key.
inline uint64_t WordBeside(uint64_t key) { return key * 0x9e3779b97f4a7c15 + 1; }

inline std::vector<uint64_t> WordsBeside(const std::vector<uint64_t>& keys) {
  std::vector<uint64_t> words;
  for (const uint64_t key : keys) words.push_back(WordBeside(key));
  return words;
}

// first, first + step, ...
inline std::vector<uint64_t> EvenKeys(uint64_t first, uint64_t step, size_t count) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(first + i * step);
  return keys;
}

inline void Lay(const std::vector<uint64_t>& keys, l1::ExtentImage* image) {
  image->Begin();
  image->Append(keys.data(), WordsBeside(keys).data(), keys.size());
  image->Finish();
}

// Memory for the blocks of an extent.
class BlockMemory {
 public:
  BlockMemory() { EXPECT_TRUE(Region::Allocate(format::kIndexExtentBytes, false, &region_).ok()); }
  char* data() const { return region_.data(); }
  char* At(uint32_t block) const { return data() + size_t{block} * format::kIndexBlockBytes; }

 private:
  Region region_;
};

// An open temporary directory.
class OpenDir {
 public:
  OpenDir() : OpenDir(std::filesystem::temp_directory_path()) {}
  explicit OpenDir(const std::filesystem::path& parent) : dir_(parent) {
    EXPECT_TRUE(sys::OpenDirectory(dir_.path(), false, &fd_).ok());
  }

  int fd() const { return fd_.get(); }
  std::string Join(const std::string& name) const { return dir_.Join(name); }
  bool Has(const std::string& name) const { return ::access(Join(name).c_str(), F_OK) == 0; }
  uint64_t AllocatedBytes(const std::string& name) const {
    uint64_t bytes = 0;
    EXPECT_TRUE(sys::AllocatedBytes(fd(), name, &bytes).ok());
    return bytes;
  }

 private:
  TempDir dir_;
  UniqueFd fd_;
};

}  // namespace engine_race::test

#endif  // TEST_L1_EXTENT_TEST_UTIL_H_
