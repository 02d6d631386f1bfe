// Threads of the system that take turns on one CPU: the cost that tasks save.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <latch>
#include <thread>
#include <vector>

#include "engine_race/base/sys.h"
#include "harness/experiments/io/lab.h"
#include "harness/measure/median.h"

namespace engine_race::harness {
namespace {

constexpr uint32_t kTurnsPerChunk = 64;
constexpr uint32_t kIdleThreads = 64;
constexpr uint32_t kStop = 2;

// Whose turn it is: 0, 1, or kStop.
class FutexTurns {
 public:
  // Waits for the turn of `player`; false when there are no more.
  bool Await(uint32_t player) {
    for (;;) {
      // Acquire pairs with the release in Give.
      const uint32_t turn = turn_.load(std::memory_order_acquire);
      if (turn == kStop) return false;
      if (turn == player) return true;
      syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
    }
  }
  void Give(uint32_t turn) {
    // Release pairs with the acquire in Await: what was done in this turn is seen in the next.
    turn_.store(turn, std::memory_order_release);
    syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  std::atomic<uint32_t> turn_{0};
};

class EventFdTurns {
 public:
  EventFdTurns() {
    for (UniqueFd& fd : fds_) fd = UniqueFd(eventfd(0, EFD_CLOEXEC));
    Give(0);
  }
  bool valid() const { return fds_[0].valid() && fds_[1].valid(); }
  bool Await(uint32_t player) const {
    uint64_t word = 0;
    const ssize_t got = read(fds_[player].get(), &word, sizeof(word));
    return got == sizeof(word) && word != kStop;
  }
  void Give(uint32_t turn) const {
    const uint64_t word = turn == kStop ? kStop : 1;
    // Only the second player waits to be stopped.
    const ssize_t put = write(fds_[turn == kStop ? 1 : turn].get(), &word, sizeof(word));
    static_cast<void>(put);
  }

 private:
  UniqueFd fds_[2];
};

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void MeasureThreads(const SwitchLoad& load, SwitchCost* cost) {
  cost->create_ns = MedianCost(load.round_count, load.seconds / 4, [] {
                      std::thread([] {}).join();
                      return 1;
                    }).ns;
  pthread_attr_t attributes;
  size_t stack_bytes = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &stack_bytes);
  pthread_attr_destroy(&attributes);
  cost->reserved_bytes = stack_bytes;
  const uint64_t before_bytes = ResidentBytes();
  std::latch all_run(kIdleThreads + 1);
  std::latch measured(1);
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i < kIdleThreads; ++i) {
    threads.emplace_back([&] {
      all_run.arrive_and_wait();
      measured.wait();
    });
  }
  all_run.arrive_and_wait();
  const uint64_t after_bytes = ResidentBytes();
  measured.count_down();
  cost->resident_bytes =
      after_bytes > before_bytes ? (after_bytes - before_bytes) / kIdleThreads : 0;
}

template <typename Turns>
void ThreadSwitches(Turns* turns, const SwitchLoad& load, SwitchCost* cost) {
  const PinnedToOneCpu pinned;
  {
    const std::jthread other([turns] {
      while (turns->Await(1)) turns->Give(0);
    });
    const RoundCost switching = MedianCost(load.round_count, load.seconds, [turns] {
      for (uint32_t i = 0; i < kTurnsPerChunk; ++i) {
        turns->Await(0);
        turns->Give(1);
      }
      // Each turn has two switches: there and back.
      return 2 * kTurnsPerChunk;
    });
    cost->switch_ns = switching.ns;
    cost->switch_cycles = switching.cycles;
    turns->Await(0);
    turns->Give(kStop);
  }
  MeasureThreads(load, cost);
}

}  // namespace

Status FutexSwitches(const SwitchLoad& load, SwitchCost* cost) {
  FutexTurns turns;
  ThreadSwitches(&turns, load, cost);
  return Status::Ok();
}

Status EventFdSwitches(const SwitchLoad& load, SwitchCost* cost) {
  EventFdTurns turns;
  if (!turns.valid()) return Status::FromErrno("eventfd", errno);
  ThreadSwitches(&turns, load, cost);
  return Status::Ok();
}

}  // namespace engine_race::harness
