// A team of threads and the first failure among them.
//
// Thread-safe as each class says.
#ifndef HARNESS_MEASURE_WORKERS_H_
#define HARNESS_MEASURE_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace harness {

// Keeps the first failure; once there is one, workers stop. Every call from any thread.
class Failures {
 public:
  void Note(const std::string& what);
  bool any() const { return any_.load(); }
  std::string first() const;

 private:
  mutable std::mutex mutex_;
  std::string first_;
  std::atomic<bool> any_{false};
};

// Runs body(0) to body(count - 1), each in a thread of its own, and waits for all. What a body
// throws becomes a failure.
void RunWorkers(uint32_t count, Failures* failures, const std::function<void(uint32_t)>& body);

}  // namespace harness

#endif  // HARNESS_MEASURE_WORKERS_H_
