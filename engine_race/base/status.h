// How every fallible call inside the engine answers: a code and, on failure, one line of text. A
// failed system call adds its errno and path.
//
// The codes are RetCode's numbers, so that the door only casts. Values; safe to copy and move. All
// but the code lies apart, so that success, which every lookup returns, costs two words.
#ifndef ENGINE_RACE_BASE_STATUS_H_
#define ENGINE_RACE_BASE_STATUS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace engine_race {

enum class Code : int {
  kOk = 0,
  kNotFound = 1,
  kCorruption = 2,
  kNotSupported = 3,
  kInvalidArgument = 4,
  kIOError = 5,
  kIncomplete = 6,
  kTimedOut = 7,
  kFull = 8,
  kOutOfMemory = 9,
  kBusy = 10,  // no number of RetCode: only calls that the contest does not have answer it
};
inline constexpr size_t kCodeCount = static_cast<size_t>(Code::kBusy) + 1;

std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code),
        failure_(message.empty() ? nullptr
                                 : std::make_unique<const Failure>(Failure{std::move(message)})) {}
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other)
      : code_(other.code_),
        failure_(other.failure_ == nullptr ? nullptr
                                           : std::make_unique<const Failure>(*other.failure_)) {}
  Status& operator=(const Status& other) { return *this = Status(other); }
  ~Status() = default;

  static Status Ok() { return Status(); }
  static Status NotFound() { return Status(Code::kNotFound, {}); }
  static Status Corruption(std::string m) { return Status(Code::kCorruption, std::move(m)); }
  static Status NotSupported(std::string m) { return Status(Code::kNotSupported, std::move(m)); }
  static Status InvalidArgument(std::string m) {
    return Status(Code::kInvalidArgument, std::move(m));
  }
  static Status IOError(std::string m) { return Status(Code::kIOError, std::move(m)); }
  static Status Full(std::string m) { return Status(Code::kFull, std::move(m)); }
  // Without a message where there is no memory for it.
  static Status OutOfMemory(std::string_view what) noexcept;

  // The one place that turns errno into a code: full disks are kFull, refused memory is
  // kOutOfMemory, all else is kIOError. `what` names the call and the file, `path` where that is.
  static Status FromErrno(std::string_view what, int error, std::string path = {});

  // This failure with a text before its own. Ok stays Ok.
  Status Prefixed(std::string_view prefix) const;
  // This failure in other words, with its errno and path.
  Status Reworded(Code code, std::string message) const;
  // This failure with an errno and a path, where it has none yet. Ok stays Ok.
  Status At(std::string path, int error = 0) const;

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // Empty for success and where the code alone is enough.
  const std::string& message() const;
  // The errno of the system call that failed; 0 where none did.
  int error() const { return failure_ == nullptr ? 0 : failure_->error; }
  // The file or directory that could not be used; empty where the failure is about none.
  const std::string& path() const;
  // "kIOError: pwrite value_03: Input/output error"
  std::string ToString() const;

 private:
  struct Failure {
    std::string message;
    int error = 0;
    std::string path = {};
  };

  Status(Failure failure, Code code)
      : code_(code), failure_(std::make_unique<const Failure>(std::move(failure))) {}

  Code code_ = Code::kOk;
  std::unique_ptr<const Failure> failure_;
};

}  // namespace engine_race

// Returns the status of `expr` from the calling function unless it is ok.
#define ENGINE_RACE_RETURN_IF_ERROR(expr)          \
  do {                                             \
    ::engine_race::Status status_of_expr = (expr); \
    if (!status_of_expr.ok()) [[unlikely]] {       \
      return status_of_expr;                       \
    }                                              \
  } while (false)

#endif  // ENGINE_RACE_BASE_STATUS_H_
