#include "harness/bench/timeline.h"

#include <chrono>
#include <cmath>
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

bool ReportFile::Open(const std::string& path, uint32_t interval_seconds) {
  interval_seconds_ = interval_seconds;
  file_.open(path, std::ios::trunc);
  file_ << "secs_elapsed,interval_qps" << std::endl;
  return file_.good();
}

void ReportFile::BeginRun() {
  noted_seconds_ = 0;
  noted_operations_ = 0;
  run_begin_seconds_ = last_seconds_;
}

void ReportFile::NoteSecond(double seconds, uint64_t operations) {
  last_seconds_ = run_begin_seconds_ + seconds;
  if (!file_.is_open() || ++noted_seconds_ % interval_seconds_ != 0) return;
  // A flush: others may read the file while the run goes on.
  file_ << std::llround(last_seconds_) << ',' << operations - noted_operations_ << std::endl;
  noted_operations_ = operations;
}

}  // namespace engine_race::harness
