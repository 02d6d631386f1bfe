#include "harness/tools/store_note.h"

#include <fcntl.h>

#include <filesystem>
#include <system_error>

#include "engine_race/base/sys.h"
#include "engine_race/base/text_file.h"

namespace engine_race::harness {

nlohmann::json DescribeFile(const std::string& path) {
  if (path.empty()) return nullptr;
  std::error_code ignored;
  const auto changed = std::filesystem::last_write_time(path, ignored).time_since_epoch().count();
  return {{"path", std::filesystem::absolute(path, ignored).string()},
          {"bytes", std::filesystem::file_size(path, ignored)},
          {"changed", changed}};
}

Status TransferNote::Read() {
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(TryReadTextFile(path_, &text));
  if (text.empty()) return Status::Ok();
  const nlohmann::json noted = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!noted.is_object() || !noted.contains("transfer") || !noted.contains("done") ||
      !noted["done"].is_number_unsigned() || !noted.contains("key") ||
      !noted["key"].is_number_unsigned()) {
    return Status::InvalidArgument(path_ + " is no note of an import or export");
  }
  if (noted["transfer"] != transfer_) {
    return Status::InvalidArgument(path_ +
                                   " is the note of something else, or of a file that has "
                                   "changed since: " +
                                   noted["transfer"].dump());
  }
  is_found_ = true;
  done_count_ = noted["done"];
  last_key_ = noted["key"];
  return Status::Ok();
}

Status TransferNote::Write(uint64_t done_count, uint64_t last_key) {
  const std::string text =
      nlohmann::json{{"transfer", transfer_}, {"done", done_count}, {"key", last_key}}.dump() +
      "\n";
  const std::string made = path_ + ".new";
  {
    UniqueFd fd;
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::OpenAt(AT_FDCWD, made, O_WRONLY | O_CREAT | O_TRUNC, 0666, &fd));
    ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(fd.get(), text.data(), text.size(), 0));
    ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(fd.get()));
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(AT_FDCWD, made, path_));
  ENGINE_RACE_RETURN_IF_ERROR(SyncDirectoryOf(path_));
  done_count_ = done_count;
  last_key_ = last_key;
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
