// A temporary directory in memory, where thousands of stores come and go quickly.
#ifndef TEST_FAULTS_MEMORY_DIR_H_
#define TEST_FAULTS_MEMORY_DIR_H_

#include <unistd.h>

#include <cerrno>
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
    const bool has_memory = ::access("/dev/shm", W_OK | X_OK) == 0;
    const std::filesystem::path base =
        has_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
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
  std::string Join(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_MEMORY_DIR_H_
