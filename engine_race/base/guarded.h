// Refused memory and refused threads, thrown by the standard library, as a Status.
#ifndef ENGINE_RACE_BASE_GUARDED_H_
#define ENGINE_RACE_BASE_GUARDED_H_

#include <new>
#include <system_error>

#include "engine_race/base/status.h"

namespace engine_race {

// Returns the answer of `call`, or kOutOfMemory if it throws std::bad_alloc or std::system_error.
template <typename Call>
Status Guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("memory was refused");
  } catch (const std::system_error& error) {
    return Status::OutOfMemory(error.what());
  }
}

// Guarded, but where memory is refused the answer is `code` without words. For calls that need
// memory only for the words of a failure.
template <typename Call>
Status GuardedAs(Code code, const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(code, {});
  } catch (const std::system_error&) {
    return Status(code, {});
  }
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_GUARDED_H_
