// The rates of the device itself: runs the program fio and reads its figures.
//
// The engine's three phases are compared with BestWrite, RandomRead and BestScan. Each moves the
// given bytes with O_DIRECT in the directory of the store, and removes its files afterwards. Files
// for reads are written outside the measured time.
#ifndef HARNESS_SYSTEM_FIO_RUNNER_H_
#define HARNESS_SYSTEM_FIO_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace engine_race::harness {

struct FioResult {
  bool ok = false;
  std::string error;  // one line, when not ok
  std::string job;    // the job in words: "libaio, depth 16, 1 MiB blocks"
  uint64_t bytes = 0;
  double seconds = 0;
  double bytes_per_second = 0;
  double ops_per_second = 0;
  // User and system time of an operation, over all jobs; 0 when fio does not report it.
  double cpu_ns_per_op = 0;
};

// One fio command line without its file: the arguments, and the words for it.
struct FioJob {
  std::string words;
  std::vector<std::string> args;
  bool writes = false;
  bool mixes = false;  // it reads and writes: both count
};

// Random reads and writes of given mean sizes: at least 4 KiB, or none at all.
struct FioMix {
  uint64_t file_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint32_t read_percent = 0;  // of all requests
};

class FioRunner {
 public:
  // Works in `dir`, which must exist; its files begin with "fio-".
  explicit FioRunner(std::string dir) : dir_(std::move(dir)) {}
  FioRunner(const FioRunner&) = delete;
  FioRunner& operator=(const FioRunner&) = delete;
  // Removes the file that the reads shared.
  ~FioRunner();

  // Whether fio can be run.
  static bool Available();

  // randwrite 128k, direct, fallocate=none. Takes the better of libaio at depth 16 on one new file
  // and 64 blocking jobs with a new file each. Blocks have `least_block_bytes`, in whole 4 KiB, if
  // that is more.
  FioResult BestWrite(uint64_t bytes, uint64_t least_block_bytes = 0);

  // randread, direct: 64 blocking jobs on one written file of `bytes` make so many reads in all.
  // Blocks have `block_bytes` in whole 4 KiB.
  FioResult RandomRead(uint64_t bytes, uint64_t block_bytes, uint64_t read_count);

  // The best sequential direct read of 256 KiB and 1 MiB blocks by libaio at depth 16 and 64.
  // Its `seconds` is the time that the best one needs for `bytes`.
  FioResult BestScan(uint64_t bytes);

  // Random direct 4 KiB reads of the first `bytes_each` of existing files, which are named relative
  // to the directory. The engine "psync" runs 64 blocking jobs; an asynchronous engine runs depth
  // 128 in batches of 16.
  FioResult RandomReadOf(const std::vector<std::string>& names, uint64_t bytes_each,
                         const std::string& engine, double seconds);

  // Random direct reads and writes of the file that reads share, by libaio at depth 64.
  FioResult RandomMix(const FioMix& mix, double seconds);
  // The value of fio's option bssplit, for blocks of whole 4 KiB that have this mean.
  static std::string BlocksOfMean(uint64_t mean_bytes);

  // Parses fio's JSON report of one group of jobs; `exit_code` is fio's. The result is not ok, with
  // an `error`, when fio failed or the report cannot be parsed.
  static FioResult ReadReport(const FioJob& job, const std::string& output, int exit_code);

  // Writes the file that reads share, outside of any measured time, unless it exists with that
  // size. RandomRead and BestScan call it.
  bool PrepareFile(uint64_t bytes, std::string* error);
  // Removes the file that reads share.
  void RemoveFile();

 private:
  FioResult Run(const FioJob& job);

  std::string dir_;
  uint64_t prepared_bytes_ = 0;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_FIO_RUNNER_H_
