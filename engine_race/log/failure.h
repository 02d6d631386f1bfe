// Failures that must be kept, also where there is no memory for their words.
//
// Thread safety: stateless functions.
#ifndef ENGINE_RACE_LOG_FAILURE_H_
#define ENGINE_RACE_LOG_FAILURE_H_

#include "engine_race/base/guarded.h"
#include "engine_race/base/status.h"

namespace engine_race {

// A copy of `status` under another code, without its words where there is no memory for them.
inline Status CopyAs(Code code, const Status& status) noexcept {
  return GuardedAs(code, [&] { return status.Reworded(code, status.message()); });
}

inline Status CopyOf(const Status& status) noexcept { return CopyAs(status.code(), status); }

// Whether a failed write leaves everything as it was: the group stays staged, and the next write
// tries it again.
inline bool CanBeTriedAgain(const Status& status) {
  return status.code() == Code::kFull || status.code() == Code::kOutOfMemory;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FAILURE_H_
