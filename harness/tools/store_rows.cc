#include "harness/tools/store_rows.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <regex>

namespace engine_race::harness {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMostHeaderBytes = 1 << 20;
// Of the arrays that are written here.
constexpr uint64_t kHeaderBytes = 128;

// Multiplies; false when the product does not fit.
bool Times(const std::string& text, uint64_t* product) {
  uint64_t factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  return error == std::errc() && !__builtin_mul_overflow(*product, factor, product);
}

// Takes the words of an array's header: a dictionary of Python.
Status TakeHeader(const std::string& words, RowFile* file) {
  std::smatch type;
  std::smatch order;
  std::smatch shape;
  if (!std::regex_search(words, type, std::regex("'descr': *'([^']*)'")) ||
      !std::regex_search(words, order, std::regex("'fortran_order': *(True|False)")) ||
      !std::regex_search(words, shape, std::regex("'shape': *\\(([0-9, ]*)\\)"))) {
    return Status::InvalidArgument(file->path + " is no array of numbers: " + words);
  }
  file->type = type[1];
  std::smatch item;
  if (!std::regex_match(file->type, item, std::regex("[<|]([biufcmMSV])([0-9]+)(\\[.*\\])?"))) {
    return Status::InvalidArgument(file->path + " has items of type '" + file->type +
                                   "', which are no little-endian numbers or bytes");
  }
  if (order[1] == "True") {
    return Status::InvalidArgument(file->path + " has its rows in Fortran's order");
  }
  const std::string sizes = shape[1];
  const std::regex number("[0-9]+");
  file->row_bytes = 1;
  bool fits = Times(item[2], &file->row_bytes);
  size_t dimension_count = 0;
  for (std::sregex_iterator at(sizes.begin(), sizes.end(), number), end; at != end; ++at) {
    if (dimension_count == 0) file->count = 1;
    fits = fits && Times(at->str(), dimension_count == 0 ? &file->count : &file->row_bytes);
    ++dimension_count;
  }
  if (dimension_count == 0) return Status::InvalidArgument(file->path + " has no rows");
  if (!fits || file->row_bytes == 0) {
    return Status::InvalidArgument(file->path + " has rows of no size: (" + sizes + ")");
  }
  return Status::Ok();
}

Status ReadHeader(uint64_t file_bytes, RowFile* file) {
  // Magic, version, and the size of the words in two bytes, or four from version 2 on.
  unsigned char head[12] = {};
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(file->fd.get(), head, sizeof(head), 0, &read_bytes));
  const Status wrong = Status::InvalidArgument(file->path + " is no whole .npy file");
  const bool is_npy = std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<char*>(head));
  if (read_bytes < sizeof(head) || !is_npy || head[6] < 1 || head[6] > 3) return wrong;
  const bool is_long = head[6] > 1;
  uint64_t bytes = head[8] + (uint64_t{head[9]} << 8);
  if (is_long) bytes += (uint64_t{head[10]} << 16) + (uint64_t{head[11]} << 24);
  const uint64_t begin = is_long ? 12 : 10;
  if (bytes > kMostHeaderBytes || begin + bytes > file_bytes) return wrong;
  std::string words(bytes, '\0');
  ENGINE_RACE_RETURN_IF_ERROR(sys::PreadFull(file->fd.get(), words.data(), bytes, begin));
  file->begin = begin + bytes;
  return TakeHeader(words, file);
}

}  // namespace

bool IsNpy(const std::string& path) { return path.ends_with(".npy"); }

Status RowFile::Read(uint64_t first, uint64_t row_count, char* rows) const {
  return sys::PreadFull(fd.get(), rows, row_count * row_bytes, begin + first * row_bytes);
}

Status OpenRows(const std::string& path, RowFile* file) {
  file->path = path;
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, path, O_RDONLY, 0, &file->fd));
  bool is_regular = false;
  uint64_t link_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(file->fd.get(), &is_regular, &link_count));
  if (!is_regular) return Status::InvalidArgument(path + " is no regular file");
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(file->fd.get(), &file_bytes));
  if (IsNpy(path)) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadHeader(file_bytes, file));
  } else {
    file->row_bytes = kRecordBytes;
    file->count = file_bytes / kRecordBytes;
  }
  const uint64_t bytes = file_bytes - file->begin;
  if (bytes / file->row_bytes == file->count && bytes % file->row_bytes == 0) return Status::Ok();
  return Status::InvalidArgument(path + " has " + std::to_string(bytes) + " bytes of rows, not " +
                                 std::to_string(file->count) + " rows of " +
                                 std::to_string(file->row_bytes));
}

Status RowWriter::Open(const std::string& path, bool is_npy, uint64_t row_bytes,
                       uint64_t row_count) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, path, O_RDWR | O_CREAT, 0666, &fd_));
  begin_ = is_npy ? kHeaderBytes : 0;
  row_bytes_ = row_bytes;
  end_ = begin_ + row_count * row_bytes;
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(fd_.get(), &file_bytes));
  if (row_count > 0 && file_bytes < end_) {
    return Status::InvalidArgument(path + " has fewer than " + std::to_string(row_count) + " rows");
  }
  return sys::Truncate(fd_.get(), row_count == 0 ? 0 : end_);
}

Status RowWriter::Flush() {
  ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(fd_.get(), pending_.data(), pending_.size(), end_));
  end_ += pending_.size();
  pending_.clear();
  return Status::Ok();
}

Status RowWriter::Finish(std::string_view type, std::string_view shape) {
  if (begin_ > 0) {
    std::string words =
        "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" +
        std::to_string((end_ - begin_) / row_bytes_) + "," + std::string(shape) + "), }";
    std::string header = std::string(kMagic) + '\1' + '\0';
    header += static_cast<char>(kHeaderBytes - header.size() - 2);
    header += '\0';
    header += words + std::string(kHeaderBytes - header.size() - words.size() - 1, ' ') + "\n";
    ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(fd_.get(), header.data(), header.size(), 0));
  }
  return sys::Fsync(fd_.get());
}

}  // namespace engine_race::harness
