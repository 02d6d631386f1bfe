#include "harness/bench/timeline.h"

#include <chrono>
#include <condition_variable>

#include "harness/system/process_stats.h"

namespace engine_race::harness {

void SecondNotes::Note(double seconds, uint64_t operations) {
  seconds_->push_back({seconds, operations - noted_});
  noted_ = operations;
  if (on_second_) on_second_(seconds, operations);
}

void SecondNotes::End(double seconds, uint64_t operations) {
  if (operations > noted_) seconds_->push_back({seconds, operations - noted_});
  noted_ = operations;
}

void Timeline::Begin() {
  std::call_once(begun_, [this] {
    begin_ns_ = NowNs();
    thread_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  });
}

void Timeline::End(double seconds) {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  notes_.End(seconds, progress_.Done());
}

void Timeline::Watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  for (uint64_t second = 1;; ++second) {
    const auto end = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(begin_ns_ + second * 1000000000));
    wake.wait_until(lock, stop, end, [] { return false; });
    if (stop.stop_requested()) return;
    notes_.Note(SecondsSince(begin_ns_), progress_.Done());
  }
}

}  // namespace engine_race::harness
