#include "engine_race/base/status.h"

#include <cerrno>
#include <new>
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
    case Code::kBusy:
      return "kBusy";
  }
  return "unknown";
}

namespace {

Code CodeOfErrno(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kFull;
    case ENOMEM:
      return Code::kOutOfMemory;
    default:
      return Code::kIOError;
  }
}

const std::string& NoText() {
  static const std::string kNone;
  return kNone;
}

}  // namespace

Status Status::OutOfMemory(std::string_view what) noexcept {
  try {
    return {Code::kOutOfMemory, std::string(what)};
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, std::string()};
  }
}

Status Status::FromErrno(std::string_view what, int error, std::string path) {
  std::string message(what);
  message += ": ";
  message += std::generic_category().message(error);
  return {Failure{std::move(message), error, std::move(path)}, CodeOfErrno(error)};
}

Status Status::Prefixed(std::string_view prefix) const {
  if (ok()) return Ok();
  return Reworded(code_, std::string(prefix) + message());
}

Status Status::Reworded(Code code, std::string message) const {
  return {Failure{std::move(message), error(), path()}, code};
}

Status Status::At(std::string path, int error) const {
  if (ok()) return Ok();
  Failure failure = failure_ == nullptr ? Failure() : *failure_;
  if (failure.path.empty()) failure.path = std::move(path);
  if (failure.error == 0) failure.error = error;
  return {std::move(failure), code_};
}

const std::string& Status::message() const {
  return failure_ == nullptr ? NoText() : failure_->message;
}

const std::string& Status::path() const { return failure_ == nullptr ? NoText() : failure_->path; }

std::string Status::ToString() const {
  std::string text(CodeName(code_));
  if (!message().empty()) {
    text += ": ";
    text += message();
  }
  return text;
}

}  // namespace engine_race
