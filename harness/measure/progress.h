// A live line on a terminal: progress, rate and remaining time. In a pipe it prints nothing.
//
// Writes to standard error. Thread safety: any thread makes any call but the destructor. A slot of
// Add belongs to one thread at a time.
#ifndef HARNESS_MEASURE_PROGRESS_H_
#define HARNESS_MEASURE_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace engine_race::harness {

bool StandardErrorIsTerminal();

class Progress {
 public:
  // `total` is in the units of Add, each of `bytes_each` bytes. 0: no bytes are shown. With
  // `limit_seconds` the work ends when that time is up, and `total` is ignored.
  Progress(std::string label, uint64_t total, uint64_t bytes_each, uint32_t slot_count,
           double limit_seconds = 0);
  // Clears the line.
  ~Progress();

  void Add(uint32_t slot, uint64_t count) {
    // Relaxed: the line needs no order, and only this thread writes the slot.
    std::atomic<uint64_t>& done = slots_[slot].done;
    done.store(done.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  // The sum of all slots.
  uint64_t Done() const;

  // Paints the line at once. Without this call it is painted five times a second.
  void Repaint() const;
  // Prints `text`, which ends with a newline, to standard output. On a terminal it appears above
  // the line.
  void Print(const std::string& text) const;

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> done{0};
  };

  bool is_shown() const { return painter_.joinable(); }
  void Show() const;

  std::string label_;
  uint64_t total_;
  uint64_t bytes_each_;
  double limit_seconds_;
  uint64_t start_ns_;
  std::vector<Slot> slots_;
  mutable std::mutex paint_mutex_;  // guards the terminal
  std::jthread painter_;
};

// "write   42%  812.4 MB/s  198.3k/s  3 s left"
std::string ProgressText(const std::string& label, uint64_t done, uint64_t total,
                         uint64_t bytes_each, double seconds);

// A line that stays on the terminal as long as the object lives.
class StatusLine {
 public:
  explicit StatusLine(const std::string& text);
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine();
};

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_PROGRESS_H_
