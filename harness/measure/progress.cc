#include "harness/measure/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <stop_token>

#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr auto kRepaint = std::chrono::milliseconds(200);

// The most columns of a line: one less than the terminal has. No limit if its width is not known.
size_t MostColumns() {
  winsize size = {};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col - size_t{1} : std::string::npos;
}

// Returns to the start of the line, clears it and writes as much of `text` as fits. If the line
// wrapped, the next call would clear its last part alone.
void Paint(const std::string& text) {
  std::fprintf(stderr, "\r\033[K%s", text.substr(0, MostColumns()).c_str());
  std::fflush(stderr);
}

}  // namespace

bool StandardErrorIsTerminal() { return isatty(STDERR_FILENO) == 1; }

std::string ProgressText(const std::string& label, uint64_t done, uint64_t total,
                         uint64_t bytes_each, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  char text[160];
  std::snprintf(text, sizeof(text), "%-8s%3.0f%%", label.c_str(), share * 100);
  std::string line = text;
  if (bytes_each != 0) {
    std::snprintf(text, sizeof(text), "  %.1f MB/s", rate * static_cast<double>(bytes_each) * 1e-6);
    line += text;
  }
  std::snprintf(text, sizeof(text), "  %.1fk/s", rate * 1e-3);
  line += text;
  if (rate > 0 && done < total) {
    const double left = static_cast<double>(total - done) / rate;
    std::snprintf(text, sizeof(text), "  %.0f s left", left);
    line += text;
  }
  return line;
}

Progress::Progress(std::string label, uint64_t total, uint64_t bytes_each, uint32_t slot_count,
                   double limit_seconds)
    : label_(std::move(label)),
      total_(total),
      bytes_each_(bytes_each),
      limit_seconds_(limit_seconds),
      start_ns_(NowNs()),
      slots_(slot_count) {
  if (!StandardErrorIsTerminal()) return;
  painter_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      Show();
      wake.wait_for(lock, stop, kRepaint, [] { return false; });
    }
  });
}

Progress::~Progress() {
  if (!is_shown()) return;
  painter_.request_stop();
  painter_.join();
  Paint("");
}

uint64_t Progress::Done() const {
  uint64_t done = 0;
  // Relaxed: as in Add.
  for (const Slot& slot : slots_) done += slot.done.load(std::memory_order_relaxed);
  return done;
}

void Progress::Repaint() const {
  if (is_shown()) Show();
}

void Progress::Print(const std::string& text) const {
  if (!is_shown()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const std::lock_guard lock(paint_mutex_);
  Paint("");
  std::fputs(text.c_str(), stdout);
  // The line's next repaint must come after the text.
  std::fflush(stdout);
}

void Progress::Show() const {
  const double seconds = SecondsSince(start_ns_);
  const uint64_t done = Done();
  uint64_t total = total_;
  if (limit_seconds_ > 0) {
    const double share = std::clamp(seconds / limit_seconds_, 1e-9, 1.0);
    total = std::max(static_cast<uint64_t>(static_cast<double>(done) / share), uint64_t{1});
  }
  const std::lock_guard lock(paint_mutex_);
  Paint(ProgressText(label_, std::min(done, total), total, bytes_each_, seconds));
}

StatusLine::StatusLine(const std::string& text) {
  if (StandardErrorIsTerminal()) Paint(text);
}

StatusLine::~StatusLine() {
  if (StandardErrorIsTerminal()) Paint("");
}

}  // namespace engine_race::harness
