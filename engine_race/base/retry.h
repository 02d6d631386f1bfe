// Repeats a system call that a signal interrupted.
#ifndef ENGINE_RACE_BASE_RETRY_H_
#define ENGINE_RACE_BASE_RETRY_H_

#include <cerrno>

namespace engine_race::sys {

// Calls `call` until it answers anything but -1 with EINTR.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

}  // namespace engine_race::sys

#endif  // ENGINE_RACE_BASE_RETRY_H_
