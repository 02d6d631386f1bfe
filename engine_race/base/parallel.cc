#include "engine_race/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/cpu_quota.h"
#include "engine_race/base/guarded.h"

namespace engine_race {

Status RunParallel(uint32_t count, const std::function<Status(uint32_t worker)>& work) {
  std::mutex mutex;
  Status first_failure;
  const auto run = [&](uint32_t worker) {
    Status status = Guarded([&] { return work(worker); });
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (first_failure.ok()) first_failure = std::move(status);
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(count);
    for (uint32_t worker = 1; worker < count; ++worker) threads.emplace_back(run, worker);
  } catch (const std::exception&) {
    // A thread or its memory was refused: the threads that were started do the work.
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  return first_failure;
}

uint32_t AvailableCpuCount() {
  cpu_set_t cpus;
  uint32_t count = std::thread::hardware_concurrency();
  // It fails on machines with more CPUs than the set has room for.
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    count = static_cast<uint32_t>(CPU_COUNT(&cpus));
  }
  return std::min(std::max(count, 1U), CpuQuota());
}

std::vector<uint32_t> AvailableCpus() {
  cpu_set_t set;
  std::vector<uint32_t> cpus;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
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
