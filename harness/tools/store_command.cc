#include "harness/tools/store_command.h"

#include <cerrno>
#include <cstdio>

#include "engine_race/base/sys.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {

int Refuse(const std::string& command, const std::string& name, const Status& status) {
  const std::string why =
      status.code() == Code::kNotFound ? "there is no store" : status.ToString();
  const int code = Refuse("store " + command, name + ": " + why);
  return status.code() == Code::kCorruption ? kExitFailure : code;
}

Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Status::Ok();
  return Status::FromErrno("write standard output", errno);
}

Status FlushOutput() {
  const bool is_written = std::fflush(stdout) == 0;
  const int error = errno;
  std::clearerr(stdout);
  return is_written ? Status::Ok() : Status::FromErrno("write standard output", error);
}

Options CommandOptions() {
  Options options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  options.value_bytes = 0;
  return options;
}

Status ReadIdentity(const std::string& dir, StoreIdentity* identity) {
  UniqueFd directory;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &directory));
  return ReadManifest(directory.get(), identity);
}

bool CommandProgress::Note(uint64_t done_count, uint64_t record_count) {
  if (!line_) line_.emplace(label_, record_count, /*bytes_each=*/0, /*slot_count=*/1);
  const uint64_t before = line_->Done();
  line_->Add(0, done_count - before);
  // Short work ends before the line's next turn to be painted.
  if (before == 0 && done_count > 0) line_->Repaint();
  return true;
}

void CommandProgress::PrintBad(const BadRecord& bad) {
  std::string text = "bad: " + bad.file + ", bucket " + std::to_string(bad.bucket);
  if (bad.slot != BadRecord::kWholeBucket) text += ", slot " + std::to_string(bad.slot);
  text += ": " + bad.what + "\n";
  if (line_) return line_->Print(text);
  std::fputs(text.c_str(), stdout);
}

}  // namespace engine_race::harness
