// How a write ends: a Status, and whether the log has the write.
//
// A write that was not appended may be tried again. A write that was appended never is: meanwhile
// another thread may have read it, and written its key anew. The older value would then stand over
// the newer one. So a write that outlives what the sync mode promises is Ok, whatever happened to
// its group afterwards. It fails only where it is not durable although the sync mode promises that.
//
// A value type.
#ifndef ENGINE_RACE_LOG_APPEND_STATUS_H_
#define ENGINE_RACE_LOG_APPEND_STATUS_H_

#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/status.h"

namespace engine_race {

class [[nodiscard]] AppendStatus : public Status {
 public:
  // A failure: nothing was appended.
  AppendStatus(Status status) noexcept : Status(std::move(status)), appended_(ok()) {}
  // Of a write that was appended. A failure says why it is not durable.
  static AppendStatus Appended(Status durable) noexcept {
    AppendStatus status(durable.ok() ? std::move(durable) : NotDurable(durable));
    status.appended_ = true;
    return status;
  }

  bool appended() const { return appended_; }

 private:
  // Without its words where there is no memory for them.
  static Status NotDurable(const Status& failure) noexcept {
    return GuardedAs(failure.code(), [&] {
      return failure.Reworded(failure.code(), failure.message() + " (written, but not durable)");
    });
  }

  bool appended_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_APPEND_STATUS_H_
