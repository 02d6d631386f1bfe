// A team of threads and the first failure among them.
//
// Thread safety: see each declaration.
#ifndef HARNESS_MEASURE_WORKERS_H_
#define HARNESS_MEASURE_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "engine_race/base/status.h"

namespace harness {

// Keeps the first failure; workers stop once there is one. Thread-safe.
class Failures {
 public:
  void Note(const std::string& what);
  bool any() const { return any_.load(); }
  std::string first() const;
  // kOk, or kIOError with the first failure.
  engine_race::Status status() const;

 private:
  mutable std::mutex mutex_;
  std::string first_;
  std::atomic<bool> any_{false};
};

// Runs body(0) to body(count - 1), each in a thread of its own, and waits for all. An exception of
// a body becomes a failure.
void RunWorkers(uint32_t count, Failures* failures, const std::function<void(uint32_t)>& body);

}  // namespace harness

#endif  // HARNESS_MEASURE_WORKERS_H_
