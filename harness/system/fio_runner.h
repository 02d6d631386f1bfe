// What the device gives by itself: runs the program fio and reads its figures.
//
// The three jobs are those that the engine's phases are held against. Every one of them moves the
// bytes that it is asked for with O_DIRECT, in the directory of the store, and its files are
// removed afterwards. Files that are read are written outside the measured time. One thread at a
// time.
#ifndef HARNESS_SYSTEM_FIO_RUNNER_H_
#define HARNESS_SYSTEM_FIO_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace harness {

struct FioResult {
  bool ok = false;
  std::string error;  // one line, when not ok
  std::string job;    // what was run, in words: "libaio, depth 16, 1 MiB blocks"
  uint64_t bytes = 0;
  double seconds = 0;
  double bytes_per_second = 0;
  double ops_per_second = 0;
  // User and system time of an operation, all jobs together; 0 where fio does not tell.
  double cpu_ns_per_op = 0;
};

// One fio command line without its file: the arguments, and the words for it.
struct FioJob {
  std::string words;
  std::vector<std::string> args;
  bool writes = false;
};

class FioRunner {
 public:
  // Works in `dir`, which must exist; its files begin with "fio-".
  explicit FioRunner(std::string dir) : dir_(std::move(dir)) {}
  FioRunner(const FioRunner&) = delete;
  FioRunner& operator=(const FioRunner&) = delete;
  // Removes the file that the reads shared.
  ~FioRunner();

  // Whether a program of that name runs at all.
  static bool Available();

  // randwrite 128k, direct, fallocate=none: the better of libaio at depth 16 on one new file and 64
  // blocking jobs with a new file each.
  FioResult BestWrite(uint64_t bytes);

  // randread 4k, direct: 64 blocking jobs on one written file of `bytes`.
  FioResult RandomRead(uint64_t bytes);

  // The best sequential direct read of 256 KiB and 1 MiB blocks by libaio at depth 16 and 64.
  // Its `seconds` is the time that the best one needs for `bytes`.
  FioResult BestScan(uint64_t bytes);

  // Random direct 4 KiB reads of the first `bytes_each` of files that are there, by their names in
  // the directory, for so many seconds: "psync" by 64 blocking jobs, an asynchronous engine at
  // depth 128 in batches of 16.
  FioResult RandomReadOf(const std::vector<std::string>& names, uint64_t bytes_each,
                         const std::string& engine, double seconds);

  // The figures in fio's JSON report of one group of jobs; `exit_code` is fio's own. Not ok, with a
  // word in `error`, for a report of a failure and for one that cannot be read.
  static FioResult ReadReport(const FioJob& job, const std::string& output, int exit_code);

  // Writes the file that reads share, outside of any measured time, unless it is there already with
  // that size. RandomRead and BestScan call it.
  bool PrepareFile(uint64_t bytes, std::string* error);
  // Gives its space back.
  void RemoveFile();

 private:
  FioResult Run(const FioJob& job);

  std::string dir_;
  uint64_t prepared_bytes_ = 0;
};

}  // namespace harness

#endif  // HARNESS_SYSTEM_FIO_RUNNER_H_
