#include "test/faults/sparse_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine_race/base/sys.h"

namespace engine_race::test {
namespace {

void Check(bool ok, const std::string& what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), what);
}

void CopyRange(int from, int to, off_t begin, off_t end, const std::string& path) {
  std::vector<char> piece(64 * 1024);
  while (begin < end) {
    const size_t wanted = std::min<size_t>(piece.size(), static_cast<size_t>(end - begin));
    const ssize_t got = ::pread(from, piece.data(), wanted, begin);
    Check(got > 0, path);
    const auto data_end = piece.begin() + got;
    const bool zeros = std::all_of(piece.begin(), data_end, [](char c) { return c == 0; });
    Check(zeros || ::pwrite(to, piece.data(), static_cast<size_t>(got), begin) == got, path);
    begin += got;
  }
}

void CopyFile(const std::string& from_path, const std::string& to_path) {
  const UniqueFd from(::open(from_path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd to(::open(to_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  struct stat info;
  Check(from.valid() && to.valid() && ::fstat(from.get(), &info) == 0 &&
            ::ftruncate(to.get(), info.st_size) == 0,
        to_path);
  for (off_t end = 0; end < info.st_size;) {
    const off_t begin = ::lseek(from.get(), end, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;
    end = ::lseek(from.get(), begin, SEEK_HOLE);
    Check(begin >= 0 && end > begin, from_path);
    CopyRange(from.get(), to.get(), begin, end, to_path);
  }
}

}  // namespace

void CopySparse(const std::string& from, const std::string& to) {
  std::filesystem::create_directory(to);
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(from)) {
    const std::string copy = to + "/" + entry.path().filename().string();
    if (entry.is_directory()) CopySparse(entry.path().string(), copy);
    if (entry.is_regular_file()) CopyFile(entry.path().string(), copy);
  }
}

}  // namespace engine_race::test
