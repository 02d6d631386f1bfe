// The tasks that run in user space: coroutines and fibers. Threads are in switch_threads.cc.
#include "harness/experiments/io/lab.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"
#include "harness/measure/median.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace engine_race::harness {
namespace {

// The state of a running lookup: key, slot, buffer, destination of the result.
constexpr size_t kStateBytes = 128;
constexpr size_t kStackBytes = 16 * 1024;

// Turns over all tasks between two readings of the clock, so that these cost nearly nothing.
uint32_t RepeatsOf(uint32_t task_count) { return 1 + 16384 / task_count; }

// Reads do not complete in the order in which their tasks were made.
std::vector<uint32_t> ShuffledOrder(uint32_t task_count) {
  std::vector<uint32_t> order(task_count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  return order;
}

// Measures tasks that resume(task) lets run until their next turn, and that end once *stop is set.
// make_and_run() makes one task, runs it to its end and frees it.
template <typename Resume, typename MakeAndRun>
void MeasureTasks(const SwitchLoad& load, bool* stop, const Resume& resume,
                  const MakeAndRun& make_and_run, SwitchCost* cost) {
  const std::vector<uint32_t> order = ShuffledOrder(load.task_count);
  const uint32_t repeats = RepeatsOf(load.task_count);
  const RoundCost switching =
      MedianCost(load.round_count, load.seconds, [&resume, &order, repeats] {
        for (uint32_t i = 0; i < repeats; ++i) {
          for (const uint32_t task : order) resume(task);
        }
        return repeats * order.size();
      });
  cost->switch_ns = switching.ns;
  cost->switch_cycles = switching.cycles;
  *stop = true;
  for (uint32_t task = 0; task < load.task_count; ++task) resume(task);
  cost->create_ns = MedianCost(load.round_count, load.seconds / 4, [&make_and_run] {
                      make_and_run();
                      return 1;
                    }).ns;
}

// Makes the compiler keep the state in memory across a suspension.
inline void Touch(char* state) { asm volatile("" : : "r"(state) : "memory"); }

// The data that a task and its scheduler share.
struct Turn {
  std::coroutine_handle<> next;
  const bool* stop = nullptr;
};

// Counts the bytes of one task's coroutine frames.
struct FrameBytes {
  uint64_t total = 0;
};

// A task as the scheduler sees it: started suspended, kept after its end until destroyed.
class Task {
 public:
  struct promise_type {
    // Sees the arguments of the coroutine.
    static void* operator new(size_t size, Turn*, FrameBytes* bytes) {
      bytes->total += size;
      return ::operator new(size);
    }
    static void operator delete(void* frame) { ::operator delete(frame); }
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    // Resumes the awaiting coroutine, or the scheduler when there is none.
    struct GoOn {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        const std::coroutine_handle<> caller = self.promise().caller;
        return caller ? caller : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    GoOn final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

    std::coroutine_handle<> caller;
  };

  Task() = default;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<> handle() const { return handle_; }

  // Awaiting a task suspends the caller and runs the task.
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().caller = caller;
    return handle_;
  }
  void await_resume() const {}

 private:
  std::coroutine_handle<promise_type> handle_;
};

// Returns to the scheduler, which resumes the suspended coroutine later.
struct Yield {
  Turn* turn;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> self) const { turn->next = self; }
  void await_resume() const {}
};

Task FlatTask(Turn* turn, FrameBytes*) {
  char state[kStateBytes];
  while (!*turn->stop) {
    Touch(state);
    co_await Yield{turn};
    Touch(state);
  }
}

Task YieldOnce(Turn* turn, FrameBytes*) {
  char state[kStateBytes];
  Touch(state);
  co_await Yield{turn};
  Touch(state);
}

Task NestedTask(Turn* turn, FrameBytes* bytes) {
  while (!*turn->stop) co_await YieldOnce(turn, bytes);
}

using MakeTask = Task (*)(Turn*, FrameBytes*);

Status Switches(MakeTask make, const SwitchLoad& load, SwitchCost* cost) {
  const PinnedToOneCpu pinned;
  bool stop = false;
  std::vector<Turn> turns(load.task_count);
  std::vector<Task> tasks;
  FrameBytes bytes;
  for (Turn& turn : turns) {
    turn.stop = &stop;
    tasks.push_back(make(&turn, &bytes));
    turn.next = tasks.back().handle();
    turn.next.resume();
  }
  cost->reserved_bytes = bytes.total / load.task_count;
  cost->resident_bytes = cost->reserved_bytes;
  const auto make_and_run = [&] {
    bool stop_soon = false;
    Turn turn;
    turn.stop = &stop_soon;
    const Task task = make(&turn, &bytes);
    task.handle().resume();
    stop_soon = true;
    turn.next.resume();
  };
  MeasureTasks(
      load, &stop, [&turns](uint32_t task) { turns[task].next.resume(); }, make_and_run, cost);
  return Status::Ok();
}

// Adjacent stacks that are reused when they are returned, as an engine would do.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
#if defined(__SANITIZE_ADDRESS__)
  // Calls on the stacks have poisoned memory, which would be reported to its next user.
  ~StackPool() { __asan_unpoison_memory_region(memory_.data(), memory_.size()); }
#endif

  Status Reserve(uint32_t count) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * kStackBytes, false, &memory_));
    for (uint32_t i = count; i > 0; --i) free_.push_back(memory_.data() + (i - 1) * kStackBytes);
    return Status::Ok();
  }
  char* Take() {
    char* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void PutBack(char* stack) { free_.push_back(stack); }

  uint64_t ResidentBytes() const {
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages(memory_.size() / page_bytes);
    if (mincore(memory_.data(), memory_.size(), pages.data()) != 0) return 0;
    uint64_t bytes = 0;
    for (const unsigned char page : pages) bytes += (page & 1) * page_bytes;
    return bytes;
  }

 private:
  Region memory_;
  std::vector<char*> free_;
};

// The pool, as Boost.Context wants its allocators: copyable.
struct PooledStacks {
  StackPool* pool;
  boost::context::stack_context allocate() const {
    boost::context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = pool->Take() + kStackBytes;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) const {
    pool->PutBack(static_cast<char*>(stack.sp) - kStackBytes);
  }
};

boost::context::fiber MakeFiber(StackPool* pool, const bool* stop) {
  return boost::context::fiber(std::allocator_arg, PooledStacks{pool},
                               [stop](boost::context::fiber&& scheduler) {
                                 char state[kStateBytes];
                                 while (!*stop) {
                                   Touch(state);
                                   scheduler = std::move(scheduler).resume();
                                   Touch(state);
                                 }
                                 return std::move(scheduler);
                               });
}

}  // namespace

Status CoroutineSwitches(const SwitchLoad& load, SwitchCost* cost) {
  return Switches(FlatTask, load, cost);
}

Status NestedCoroutineSwitches(const SwitchLoad& load, SwitchCost* cost) {
  return Switches(NestedTask, load, cost);
}

Status BoostContextSwitches(const SwitchLoad& load, SwitchCost* cost) {
  const PinnedToOneCpu pinned;
  StackPool pool;
  ENGINE_RACE_RETURN_IF_ERROR(pool.Reserve(load.task_count));
  bool stop = false;
  std::vector<boost::context::fiber> fibers;
  for (uint32_t i = 0; i < load.task_count; ++i) {
    fibers.push_back(MakeFiber(&pool, &stop));
    fibers.back() = std::move(fibers.back()).resume();
  }
  cost->reserved_bytes = kStackBytes;
  cost->resident_bytes = pool.ResidentBytes() / load.task_count;
  const auto resume = [&fibers](uint32_t task) { fibers[task] = std::move(fibers[task]).resume(); };
  const auto make_and_run = [&pool] {
    bool stop_soon = false;
    boost::context::fiber fiber = MakeFiber(&pool, &stop_soon);
    fiber = std::move(fiber).resume();
    stop_soon = true;
    fiber = std::move(fiber).resume();
  };
  MeasureTasks(load, &stop, resume, make_and_run, cost);
  return Status::Ok();
}

}  // namespace engine_race::harness
