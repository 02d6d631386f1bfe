#include "harness/tools/store_rows.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "engine_race/base/sys.h"
#include "harness/tools/store_command.h"

namespace engine_race::harness {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMostHeaderBytes = 4096;
// Of the arrays that are written here.
constexpr uint64_t kHeaderBytes = 128;

// The text behind `name` and spaces; empty where there is none.
std::string_view Behind(std::string_view words, std::string_view name) {
  const size_t found = words.find(name);
  if (found == words.npos) return {};
  words.remove_prefix(found + name.size());
  return words.substr(std::min(words.find_first_not_of(' '), words.size()));
}

// The text between two marks, of which the first one begins `words`. Nothing where it does not.
std::optional<std::string_view> Between(std::string_view words, char first, char last) {
  const size_t end = words.find(last, 1);
  if (!words.starts_with(first) || end == words.npos) return std::nullopt;
  return words.substr(1, end - 1);
}

// Multiplies by the number at the start of a text, and drops it there. False when there is none or
// the product does not fit.
bool Times(std::string_view* text, uint64_t* product) {
  uint64_t factor = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), factor);
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return error == std::errc() && !__builtin_mul_overflow(*product, factor, product);
}

// The start of a text of the file, as a message may show it.
std::string Shown(std::string_view text) {
  constexpr size_t kMostBytes = 100;
  return Escaped(text.substr(0, kMostBytes)) + (text.size() > kMostBytes ? "..." : "");
}

// Takes the words of an array's header: a dictionary of Python.
Status TakeHeader(std::string_view words, RowFile* file) {
  const auto type = Between(Behind(words, "'descr':"), '\'', '\'');
  const auto shape = Between(Behind(words, "'shape':"), '(', ')');
  const std::string_view order = Behind(words, "'fortran_order':");
  const bool is_fortran = order.starts_with("True");
  if (!type || !shape || (!is_fortran && !order.starts_with("False")) ||
      shape->find_first_not_of("0123456789, ") != shape->npos) {
    return Status::InvalidArgument(file->path + " is not an array of numbers: " + Shown(words));
  }
  file->type = *type;
  file->row_bytes = 1;
  std::string_view item = *type;
  const bool is_known = item.size() > 2 && (item[0] == '<' || item[0] == '|') &&
                        std::string_view("biufcmMSV").find(item[1]) != item.npos;
  item.remove_prefix(std::min<size_t>(item.size(), 2));
  bool fits = Times(&item, &file->row_bytes);
  // Behind its size a time has its unit: "<M8[ns]".
  if (!is_known || !fits || !(item.empty() || (item[0] == '[' && item.back() == ']'))) {
    return Status::InvalidArgument(file->path + " has items of type '" + Shown(*type) +
                                   "', which are not little-endian numbers or bytes");
  }
  if (is_fortran) {
    return Status::InvalidArgument(file->path + " has its rows in Fortran's order");
  }
  file->count = 1;
  for (std::string_view sizes = *shape; fits;) {
    sizes.remove_prefix(std::min(sizes.find_first_not_of(", "), sizes.size()));
    if (sizes.empty()) break;
    fits = Times(&sizes, file->dimension_count++ == 0 ? &file->count : &file->row_bytes);
  }
  if (file->dimension_count == 0) return Status::InvalidArgument(file->path + " has no rows");
  if (!fits || file->row_bytes == 0) {
    return Status::InvalidArgument(file->path + " has rows of no size: (" + Shown(*shape) + ")");
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

Status OpenRegularFile(const std::string& path, int flags, UniqueFd* fd) {
  const Status opened = sys::OpenAt(AT_FDCWD, path, flags | O_NONBLOCK, 0666, fd);
  const bool is_link = opened.error() == ELOOP || opened.error() == ENXIO;
  if (!is_link) ENGINE_RACE_RETURN_IF_ERROR(opened);
  bool is_regular = false;
  uint64_t link_count = 0;
  if (!is_link) ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(fd->get(), &is_regular, &link_count));
  return is_regular ? Status::Ok() : Status::InvalidArgument(path + " is not a regular file");
}

bool IsNpy(const std::string& path) { return path.ends_with(".npy"); }

Status RowFile::Read(uint64_t first, uint64_t row_count, char* rows) const {
  return sys::PreadFull(fd.get(), rows, row_count * row_bytes, begin + first * row_bytes);
}

Status OpenRows(const std::string& path, uint32_t value_bytes, RowFile* file) {
  file->path = path;
  ENGINE_RACE_RETURN_IF_ERROR(OpenRegularFile(path, O_RDONLY, &file->fd));
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(file->fd.get(), &file_bytes));
  if (IsNpy(path)) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadHeader(file_bytes, file));
  } else {
    file->row_bytes = kKeyBytes + uint64_t{value_bytes};
    file->count = file_bytes / file->row_bytes;
  }
  const uint64_t bytes = file_bytes - file->begin;
  if (bytes / file->row_bytes == file->count && bytes % file->row_bytes == 0) return Status::Ok();
  return Status::InvalidArgument(path + " has " + std::to_string(bytes) + " bytes of rows, not " +
                                 std::to_string(file->count) + " rows of " +
                                 std::to_string(file->row_bytes));
}

Status RowWriter::Open(const std::string& path, bool is_npy, uint64_t row_bytes, uint64_t row_count,
                       bool own) {
  ENGINE_RACE_RETURN_IF_ERROR(OpenRegularFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, &fd_));
  const Status locked = sys::LockFile(fd_.get(), sys::LockKind::kExclusive);
  // Another writer may have renamed the file before it ended.
  bool is_there = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(AT_FDCWD, path, fd_.get(), &is_there));
  if (locked.error() == EAGAIN || !is_there) {
    return Status::InvalidArgument(path + " is written by another call");
  }
  // Without such locks in the file system it goes on.
  if (locked.code() != Code::kNotSupported) ENGINE_RACE_RETURN_IF_ERROR(locked);
  begin_ = is_npy ? kHeaderBytes : 0;
  row_bytes_ = row_bytes;
  row_count_ = row_count;
  end_ = begin_ + row_count * row_bytes;
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(fd_.get(), &file_bytes));
  if (!own && file_bytes > 0) return Status::InvalidArgument(path + " is there already");
  if (row_count == 0 || file_bytes >= end_) return Status::Ok();
  return Status::InvalidArgument(path + " has fewer than " + std::to_string(row_count) + " rows");
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

namespace {

// Each note begins so, because nlohmann sorts the names.
constexpr std::string_view kStart = "{\"done\":";

Status NoNote(const std::string& path) {
  return Status::InvalidArgument(path + " is no note of this command, and is not replaced");
}

// Reads a file that is a note or, after a kill, the start of one. Empty for a missing file.
Status ReadOwn(const std::string& path, std::string* text) {
  constexpr size_t kMostBytes = 1 << 16;
  UniqueFd fd;
  const Status opened = OpenRegularFile(path, O_RDONLY, &fd);
  if (opened.error() == ENOENT) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(opened);
  text->resize(kMostBytes);
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(fd.get(), text->data(), kMostBytes, 0, &read_bytes));
  text->resize(read_bytes);
  return kStart.starts_with(text->substr(0, kStart.size())) ? Status::Ok() : NoNote(path);
}

}  // namespace

std::string NameOf(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  whole = std::filesystem::weakly_canonical(whole, ignored);
  return Escaped((whole.has_filename() ? whole : whole.parent_path()).native());
}

nlohmann::json DescribeFile(const std::optional<std::string>& path) {
  if (!path) return nullptr;
  std::error_code ignored;
  const auto changed = std::filesystem::last_write_time(*path, ignored).time_since_epoch().count();
  return {{"path", NameOf(*path)},
          {"bytes", std::filesystem::file_size(*path, ignored)},
          {"changed", changed}};
}

Status TransferNote::Read() {
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(ReadOwn(path_ + ".new", &text));
  text.clear();
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, path_, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(ReadOwn(path_, &text));
  noted_ = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_note = noted_.is_object() && noted_["done"].is_number_unsigned() &&
                       noted_["key"].is_number_unsigned() && noted_["transfer"].is_object() &&
                       noted_["transfer"].contains(kind_);
  if (!is_note) return NoNote(path_);
  place_ = {noted_["done"], noted_["key"]};
  return Status::Ok();
}

Status TransferNote::Begin(nlohmann::json transfer, bool resumes, std::function<Status()> sync) {
  transfer_ = std::move(transfer);
  sync_ = std::move(sync);
  is_begun_ = is_found() && noted_["transfer"] == transfer_;
  if (!resumes) place_ = {};
  if (!resumes || is_begun_ || !is_found()) return Status::Ok();
  return Status::InvalidArgument(path_ +
                                 " is the note of another store or file, or of a file that has "
                                 "changed since: " +
                                 noted_["transfer"].dump());
}

Status TransferNote::Write(const Place& place) {
  if (is_sync_failed_) return Status::IOError("after a failed sync none is written");
  const Status synced = sync_();
  is_sync_failed_ = !synced.ok();
  ENGINE_RACE_RETURN_IF_ERROR(synced);
  const nlohmann::json note = {
      {"transfer", transfer_}, {"done", place.done_count}, {"key", place.last_key}};
  const std::string text = note.dump() + "\n";
  const std::string made = path_ + ".new";
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(AT_FDCWD, made));
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, made, O_WRONLY | O_CREAT | O_EXCL, 0666, &fd));
  ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(fd.get(), text.data(), text.size(), 0));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(fd.get()));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(AT_FDCWD, made, path_));
  ENGINE_RACE_RETURN_IF_ERROR(SyncDirectoryOf(path_));
  place_ = place;
  return Status::Ok();
}

Status TransferNote::Remove() { return sys::Unlink(AT_FDCWD, path_); }

Status SyncDirectoryOf(const std::string& path) {
  std::error_code ignored;
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(
      std::filesystem::absolute(path, ignored).parent_path().string(), /*create=*/false, &fd));
  return sys::Fsync(fd.get());
}

}  // namespace engine_race::harness
