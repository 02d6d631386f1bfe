#include "engine_race/base/status.h"

#include <cerrno>
#include <system_error>

namespace engine_race {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "kSucc";
    case Code::kNotFound:
      return "kNotFound";
    case Code::kCorruption:
      return "kCorruption";
    case Code::kNotSupported:
      return "kNotSupported";
    case Code::kInvalidArgument:
      return "kInvalidArgument";
    case Code::kIOError:
      return "kIOError";
    case Code::kIncomplete:
      return "kIncomplete";
    case Code::kTimedOut:
      return "kTimedOut";
    case Code::kFull:
      return "kFull";
    case Code::kOutOfMemory:
      return "kOutOfMemory";
  }
  return "unknown";
}

Status Status::FromErrno(std::string_view what, int error) {
  std::string message(what);
  message += ": ";
  message += std::generic_category().message(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Full(std::move(message));
    case ENOMEM:
      return OutOfMemory(std::move(message));
    default:
      return IOError(std::move(message));
  }
}

const std::string& Status::message() const {
  static const std::string kNone;
  return message_ == nullptr ? kNone : *message_;
}

std::string Status::ToString() const {
  std::string text(CodeName(code_));
  if (message_ != nullptr) {
    text += ": ";
    text += *message_;
  }
  return text;
}

}  // namespace engine_race
