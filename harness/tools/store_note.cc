#include "harness/tools/store_note.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "engine_race/base/sys.h"
#include "harness/tools/store_command.h"
#include "harness/tools/store_rows.h"

namespace engine_race::harness {
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
