#include "harness/measure/workers.h"

#include <exception>
#include <thread>
#include <vector>

namespace harness {

void Failures::Note(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (!any_.load()) first_ = what;
  any_.store(true);
}

std::string Failures::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

engine_race::Status Failures::status() const {
  return any() ? engine_race::Status::IOError(first()) : engine_race::Status::Ok();
}

void RunWorkers(uint32_t count, Failures* failures, const std::function<void(uint32_t)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&body, failures, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        failures->Note(error.what());
      }
    });
  }
}

}  // namespace harness
