// Names of the threads that the engine starts, as `top -H`, gdb and perf show them.
//
// Every such name begins with "er-" and has at most 15 characters, the kernel's limit.
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_BASE_THREAD_NAME_H_
#define ENGINE_RACE_BASE_THREAD_NAME_H_

#include <cstdint>
#include <thread>
#include <utility>

namespace engine_race {

// Names the calling thread. A longer name is cut.
void NameThread(const char* name) noexcept;
// Names it with a number behind the name: "er-read-3". The end of a longer text is cut.
void NameThread(const char* name, uint32_t number) noexcept;

// Starts a thread that names itself and then calls `run`. Throws as std::thread does.
template <typename Run>
std::thread StartThread(const char* name, Run run) {
  return std::thread([name, run = std::move(run)]() mutable {
    NameThread(name);
    run();
  });
}
template <typename Run>
std::thread StartThread(const char* name, uint32_t number, Run run) {
  return std::thread([name, number, run = std::move(run)]() mutable {
    NameThread(name, number);
    run();
  });
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_THREAD_NAME_H_
