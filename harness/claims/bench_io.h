// The measured claims about I/O: many reads in flight, back ends, striping.
//
// Compared runs are short and follow each other. Every other round runs them in reverse order, and
// a claim is the median of its rounds. A comparison whose rounds scatter gets more of them, until
// the error of each median is small beside its bar or a limit is reached.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_IO_H_
#define HARNESS_CLAIMS_BENCH_IO_H_

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"
#include "harness/system/fio_runner.h"

namespace harness {

struct IoBenchConfig {
  std::string dir;        // on the disk; empty and writable
  std::string tmpfs_dir;  // on a tmpfs; the parts that need it fail when it is empty
  uint64_t record_count = 400000;
  uint64_t tmpfs_record_count = 200000;
  // Rounds of each part: at least and at most.
  uint32_t round_count = 9;
  uint32_t max_round_count = 31;
  double seconds = 1;  // of each timed run that has no end of its own
  uint32_t keys_per_call = 1024;
  uint32_t caller_count = 2;  // threads that call MultiRead
  uint32_t worker_count = 1;  // which they share: one reads while the other checks its values
  uint32_t thread_count = 64;
  uint64_t seed = 1;
  // Of "multiread", "uring", "tmpfs", "stripe"; all of them when empty.
  std::set<std::string> parts;
  // A run that only shows that everything works: a figure that cannot be measured is no error.
  bool is_smoke = false;
};

class BenchIo {
 public:
  explicit BenchIo(const IoBenchConfig& config);

  // False when something failed; errors() says what.
  bool Run();

  const std::vector<std::string>& errors() const { return errors_; }
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  engine_race::Options StripedOptions(const std::string& dir) const;
  StoreShape ShapeIn(const std::string& dir, uint64_t record_count) const;

  void MeasureDevice();
  void MultiReads();
  void BackEnds();
  void TmpfsReads();
  void StripedCpu();
  void StripedRates();

  // fio over the store's own value files; zeros after a failure.
  FioResult FioReads(const std::string& dir, uint64_t record_count, const std::string& engine);
  double QueueCpu(engine_race::IoBackend backend);
  TimedRun Checked(const StoreRuns& runs, const TimedRun& run);
  // The largest error that the median of a figure may have.
  struct Precision {
    const char* figure;
    double max_error;
  };
  bool NeedsRound(uint32_t round, std::initializer_list<Precision> precisions) const;
  bool Wants(const char* part) const {
    return errors_.empty() && (config_.parts.empty() || config_.parts.contains(part));
  }
  // Notes the claims that combine several medians.
  void Settle();
  void Fail(const std::string& what) { errors_.push_back(what); }

  const IoBenchConfig config_;
  StoreRuns disk_;
  StoreRuns tmpfs_;
  ClaimRounds rounds_;
  nlohmann::json device_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_IO_H_
