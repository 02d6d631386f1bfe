// A temporary directory in memory, where thousands of stores come and go quickly.
#ifndef TEST_FAULTS_MEMORY_DIR_H_
#define TEST_FAULTS_MEMORY_DIR_H_

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace engine_race::test {

// Below /dev/shm where that can be written to, else below $TMPDIR; removed with everything in it
// when the object goes.
class MemoryDir {
 public:
  MemoryDir() {
    in_memory_ = ::access("/dev/shm", W_OK | X_OK) == 0;
    const std::filesystem::path base =
        in_memory_ ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    path_ = (base / "engine_race_faults.XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
    }
  }
  MemoryDir(const MemoryDir&) = delete;
  MemoryDir& operator=(const MemoryDir&) = delete;
  ~MemoryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  // By how much a sweep should take longer steps: a disk's flushes take milliseconds each.
  uint64_t stride() const { return in_memory_ ? 1 : 13; }
  std::string Join(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  bool in_memory_ = false;
  std::string path_;
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_MEMORY_DIR_H_
