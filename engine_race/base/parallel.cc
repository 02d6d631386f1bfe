#include "engine_race/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/cpu_quota.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"

namespace engine_race {
namespace {

constexpr size_t kWordBits = 8 * sizeof(unsigned long);

}  // namespace

Status RunParallel(const char* name, uint32_t count,
                   const std::function<Status(uint32_t worker)>& work, SharedProgress* progress) {
  std::mutex mutex;
  Status first_failure;
  const auto run = [&](uint32_t worker) {
    Status status = Guarded([&] { return work(worker); });
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (first_failure.ok()) first_failure = std::move(status);
  };
  std::vector<std::thread> threads;
  const uint32_t worker_count = std::max(count, 1U);
  std::latch running(worker_count);
  try {
    threads.reserve(count);
    for (uint32_t worker = 1; worker < count; ++worker) {
      threads.push_back(StartThread(name, worker, [&run, &running, worker, progress] {
        run(worker);
        if (progress != nullptr) progress->EndWorker();
        running.count_down();
      }));
    }
  } catch (const std::exception&) {
    // A thread or its memory was refused: the threads that were started do the work.
  }
  running.count_down(static_cast<ptrdiff_t>(worker_count - 1 - threads.size()));
  run(0);
  Status followed;
  if (progress != nullptr) followed = progress->AwaitWorkers(threads.size());
  // Waits once for all of them. Joining each would wait for one after the other.
  running.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  return first_failure.ok() ? std::move(followed) : std::move(first_failure);
}

uint32_t AvailableCpuCount() {
  auto count = static_cast<uint32_t>(AvailableCpus().size());
  if (count == 0) count = std::thread::hardware_concurrency();
  return std::min(std::max(count, 1U), CpuQuota());
}

std::vector<uint32_t> AvailableCpus() {
  std::vector<uint32_t> cpus;
  // The kernel refuses a mask with less room than it has CPUs: cpu_set_t has room for 1024.
  for (size_t words = CPU_SETSIZE / kWordBits; words * kWordBits <= kMaxCpuCount; words *= 2) {
    std::vector<unsigned long> mask(words);
    if (::sched_getaffinity(0, words * sizeof(unsigned long),
                            reinterpret_cast<cpu_set_t*>(mask.data())) == 0) {
      for (uint32_t cpu = 0; cpu < words * kWordBits; ++cpu) {
        if ((mask[cpu / kWordBits] >> cpu % kWordBits & 1) != 0) cpus.push_back(cpu);
      }
      break;
    }
    if (errno != EINVAL) break;
  }
  return cpus;
}

bool PinThread(uint32_t cpu) {
  if (cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace engine_race
