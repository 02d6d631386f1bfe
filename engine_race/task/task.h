// A task: a C++20 coroutine that a Scheduler runs beside thousands of others on one thread.
//
// The other way is a stack for each task (Boost.Context). Switching costs about the same. A
// coroutine takes a few hundred bytes instead of pages, the sanitizers support it, and it needs no
// library. `bin/lab io --experiment 6` measures both.
//
// A task is a function `Task F(Scheduler& scheduler, ...)`. It runs until it awaits a read of its
// scheduler, and it is destroyed when it returns. It may not throw: it must catch every exception
// inside.
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

    // Coroutine frames come from the scheduler's arena.
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
    // No exception leaves a task: the functions that it calls are noexcept.
    void unhandled_exception() noexcept {}

    Scheduler* const scheduler;
    bool started = false;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  // Destroys a task that was never started.
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // False when there was no memory for the task.
  bool valid() const { return handle_ != nullptr; }

 private:
  friend class Scheduler;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  static void* AllocateFrame(Scheduler& scheduler, size_t size_bytes) noexcept;

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_TASK_H_
