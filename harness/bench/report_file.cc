#include "harness/bench/report_file.h"

#include <cmath>

namespace engine_race::harness {

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
