// db_bench's report file: a line for each interval of a run, with the operations done in it.
//
// The columns are "secs_elapsed,interval_qps". As in db_bench the second one is a count, whatever
// the interval. The end of a run that is no whole interval has no line. Unlike db_bench, all
// runs of a program share one file: each goes on from the seconds of the one before.
//
// Not thread-safe, but calls may come from different threads one after another.
#ifndef HARNESS_BENCH_REPORT_FILE_H_
#define HARNESS_BENCH_REPORT_FILE_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace engine_race::harness {

class ReportFile {
 public:
  // Makes the file anew. False when it cannot be written.
  bool Open(const std::string& path, uint32_t interval_seconds);
  // Does nothing but after Open.
  void BeginRun();
  // A second of the run has ended: see BenchConfig::on_second.
  void NoteSecond(double seconds, uint64_t operations);

 private:
  std::ofstream file_;
  uint32_t interval_seconds_ = 0;
  uint32_t noted_seconds_ = 0;  // of this run
  uint64_t noted_operations_ = 0;
  double run_begin_seconds_ = 0;
  double last_seconds_ = 0;
};

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_REPORT_FILE_H_
