#include "harness/measure/workers.h"

#include <cstdio>
#include <exception>
#include <string_view>
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

std::unique_ptr<engine_race::Store> OpenStore(const RaceConfig& config, Failures* failures) {
  engine_race::Options options;
  options.memory_budget_bytes = config.memory_budget_bytes;
  if (config.value_group_bytes != 0) options.value_group_bytes = config.value_group_bytes;
  options.log = [](engine_race::LogLevel level, std::string_view message) {
    if (level == engine_race::LogLevel::kInfo) return;
    std::fprintf(stderr, "engine: %.*s\n", static_cast<int>(message.size()), message.data());
  };
  std::unique_ptr<engine_race::Store> store;
  const engine_race::Status status = engine_race::Store::Open(options, config.dir, &store);
  if (status.ok()) return store;
  failures->Note("open: " + status.ToString());
  return nullptr;
}

std::string KeyFailure(uint64_t key, const std::string& what) {
  char name[32];
  std::snprintf(name, sizeof(name), "key %016llx: ", static_cast<unsigned long long>(key));
  return name + what;
}

}  // namespace harness
