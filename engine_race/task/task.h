// A light task: a C++20 coroutine that a Scheduler runs beside thousands of others on one thread.
//
// A coroutine rather than a stack of its own (Boost.Context): a switch costs about as little, a
// task takes a few hundred bytes instead of pages, the sanitizers follow it, and nothing has to be
// linked. `bin/lab io --experiment 6` measures both.
//
// A task is a function `Task F(Scheduler& scheduler, ...)`. It runs until it awaits something of
// its scheduler and is destroyed when it returns. It may not throw: what can is caught inside.
#ifndef ENGINE_RACE_TASK_TASK_H_
#define ENGINE_RACE_TASK_TASK_H_

#include <coroutine>
#include <cstddef>
#include <utility>

namespace engine_race {

class Scheduler;

class [[nodiscard]] Task {
 public:
  struct promise_type {
    template <typename... Args>
    explicit promise_type(Scheduler& s, Args&&...) : scheduler(&s) {}
    ~promise_type();
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;

    // Frames come from the scheduler.
    template <typename... Args>
    static void* operator new(size_t size_bytes, Scheduler& scheduler, Args&&...) noexcept {
      return AllocateFrame(scheduler, size_bytes);
    }
    static void operator delete(void* frame, size_t size_bytes) noexcept;
    static Task get_return_object_on_allocation_failure() noexcept { return Task(); }

    Task get_return_object() noexcept {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    // There is none: what a task calls is noexcept.
    void unhandled_exception() noexcept {}

    Scheduler* const scheduler;
    bool started = false;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  // One that was never started.
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // False when there was no memory for it.
  bool valid() const { return handle_ != nullptr; }

 private:
  friend class Scheduler;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  static void* AllocateFrame(Scheduler& scheduler, size_t size_bytes) noexcept;

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_TASK_H_
