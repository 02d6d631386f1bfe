// A file whose content says what a read of it must bring.
//
// Not thread-safe.
#ifndef TEST_IO_OFFSET_FILE_H_
#define TEST_IO_OFFSET_FILE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"

namespace engine_race::io {

inline constexpr uint32_t kPage = 4096;

// A file on disk of which every 8-byte word holds its own offset.
class OffsetFile {
 public:
  explicit OffsetFile(uint64_t size_bytes) {
    path_ = (std::filesystem::temp_directory_path() / "read_queue_XXXXXX").string();
    fd_ = mkostemp(path_.data(), O_CLOEXEC);
    EXPECT_GE(fd_, 0);
    std::vector<uint64_t> words((size_bytes + 7) / 8);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i * 8;
    EXPECT_EQ(pwrite(fd_, words.data(), size_bytes, 0), static_cast<ssize_t>(size_bytes));
    EXPECT_EQ(fsync(fd_), 0);
    direct_fd_ = open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    is_direct_ = direct_fd_ >= 0;
    if (!is_direct_) direct_fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  }
  OffsetFile(const OffsetFile&) = delete;
  OffsetFile& operator=(const OffsetFile&) = delete;
  ~OffsetFile() {
    close(direct_fd_);
    close(fd_);
    unlink(path_.c_str());
  }

  int fd() const { return fd_; }
  // Past the page cache, where the file system allows it.
  int direct_fd() const { return direct_fd_; }
  bool is_direct() const { return is_direct_; }
  const std::string& path() const { return path_; }
  // So that buffered reads go to the device as well.
  void LeavePageCache() const { EXPECT_EQ(posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0); }

  // Whether `size_bytes` at `data` are what lies at `offset`.
  static bool Holds(const char* data, uint64_t offset, size_t size_bytes) {
    for (size_t at = 0; at + 8 <= size_bytes; at += 8) {
      uint64_t word;
      std::memcpy(&word, data + at, sizeof(word));
      if (word != offset + at) return false;
    }
    return true;
  }

  // Whether no read writes into `memory` any more, to which reads of this file went. As much of the
  // file is read once more, into other memory: a read that is still under way ends meanwhile.
  bool HasLeftAlone(char* memory, size_t size_bytes) const {
    std::memset(memory, 0, size_bytes);
    Region other;
    EXPECT_TRUE(Region::Allocate(size_bytes, false, &other).ok());
    for (size_t done = 0; done < size_bytes;) {
      const ssize_t size =
          pread(direct_fd_, other.data() + done, size_bytes - done, static_cast<off_t>(done));
      EXPECT_GT(size, 0);
      if (size <= 0) return false;
      done += static_cast<size_t>(size);
    }
    return std::all_of(memory, memory + size_bytes, [](char c) { return c == 0; });
  }

 private:
  std::string path_;
  int fd_ = -1;
  int direct_fd_ = -1;
  bool is_direct_ = false;
};

}  // namespace engine_race::io

#endif  // TEST_IO_OFFSET_FILE_H_
