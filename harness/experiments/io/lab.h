// The experiments of `bin/lab io`, and the lab that each of them is given.
//
// An experiment is a function from a lab to tables. It takes as long as its configuration says. One
// runs at a time.
#ifndef HARNESS_EXPERIMENTS_IO_LAB_H_
#define HARNESS_EXPERIMENTS_IO_LAB_H_

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/experiments/io/raw.h"
#include "harness/load/store_runs.h"
#include "harness/measure/report.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

struct IoConfig {
  // Records of a store. Files of noise have as many pages of 4 KiB.
  uint64_t record_count = uint64_t{1} << 17;
  double seconds = 1;
  // A raw device, which is only read: shows the cost of the file system and the block layer. May be
  // empty.
  std::string device;
  // Few points, each too short to mean anything.
  bool smoke = false;
};

inline constexpr uint32_t kKeysPerCall = 1024;

// A store that an experiment fills, loads in the engine's different ways, and removes.
//
// It belongs to one experiment. One load runs at a time, because it uses the whole machine. A wrong
// value is an error, see StoreRuns; a mix checks both ends of each value.
class IoStore {
 public:
  // The store lies in a directory of `space`, its values on the first `path_count` of the paths (0:
  // beside it). The geometry is such that few records stay in staging.
  IoStore(const IoSpace& space, uint64_t record_count, uint32_t path_count);
  // Removes the store.
  ~IoStore() { runs_.Remove(options_); }

  // The options of the next opening.
  Options* options() { return &options_; }

  // Makes the store anew with all records and closes it; *point has the rate.
  Status Fill(TimedPoint* point);
  // Opens the store and builds the index.
  Status Open() { return runs_.Open(options_); }
  StoreStats stats() { return runs_.store()->Stats(); }

  // This many threads call MultiRead with kKeysPerCall random keys; a request is a key.
  Status MultiReads(uint32_t thread_count, double seconds, TimedPoint* point);
  // This many threads call Read, or, for `write_percent` of 100 calls, Write over an existing key.
  // Ends early when it has written as much as Fill.
  Status Mix(uint32_t thread_count, uint32_t write_percent, double seconds, TimedPoint* point);
  // One thread ranges over everything, again and again; a request is a visited record.
  Status Ranges(double seconds, TimedPoint* point);

 private:
  Status MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self);

  const StoreShape shape_;
  StoreRuns runs_;
  Options options_;
  // The writes that a mix may still make: the log grows by every write, and must not fill the
  // device.
  std::atomic<int64_t> writes_left_{0};
};

class IoLab {
 public:
  IoLab(const IoConfig& config, IoSpace* space) : config_(config), space_(space) {}

  const IoConfig& config() const { return config_; }
  double seconds() const { return config_.seconds; }
  IoSpace& space() const { return *space_; }

  // first, 2 * first, ... last; in a smoke run first and last alone.
  std::vector<uint32_t> Powers(uint32_t first, uint32_t last) const;
  // 1, 2, 4, ... and all of them.
  std::vector<uint32_t> PathCounts() const;

  Experiment Begin(int number, const std::string& name, const std::string& question,
                   const std::string& unit, const ExperimentPlot& plot) const;
  // Lets `fill` add its rows about the files of noise. When these cannot be made, a row says so.
  using FillFn = std::function<void(std::span<const RawFile> files, Experiment* experiment)>;
  Experiment OverFiles(Experiment experiment, const FillFn& fill) const;
  // A store of this many records, filled and open; null when a row says why not.
  std::unique_ptr<IoStore> OpenStore(uint32_t path_count, const ResultRow& row,
                                     Experiment* experiment) const;

  // Notes when the paths are only stand-ins for devices.
  void NoteStandIns(Experiment* experiment) const;
  // Takes one point and adds it to the experiment. Does nothing when the user has interrupted.
  void Measure(Experiment* experiment, ResultRow row,
               const std::function<Status(TimedPoint*)>& take) const;
  void MeasureRaw(Experiment* experiment, ResultRow row, const RawLoad& load) const;
  void MeasureBlocking(Experiment* experiment, ResultRow row, const BlockingLoad& load) const;
  // Adds the row with the error, if `status` is one. Returns whether it is Ok.
  bool Check(const Status& status, ResultRow row, Experiment* experiment) const;

 private:
  const IoConfig& config_;
  IoSpace* const space_;
};

// The experiments, and the parts of those that have bare reads and reads of the engine.
Experiments BareScaling(const IoLab& lab);
Experiments EngineScaling(const IoLab& lab);
Experiments PageSizes(const IoLab& lab);
Experiments RequestsInFlight(const IoLab& lab);
Experiments BackEnds(const IoLab& lab);
// A part of BackEnds: the raw device, by every back end and by NVMe passthrough.
Experiment RawDevice(const IoLab& lab);
Experiments IoModels(const IoLab& lab);
Experiments TasksPerWorker(const IoLab& lab);
Experiments ThreadsOverCores(const IoLab& lab);
Experiments GrowingData(const IoLab& lab);
Experiments Ablation(const IoLab& lab);
void AblateEngine(const IoLab& lab, Experiment* experiment);

// The figures of experiment 1 that plots of mixes show.
inline const ExperimentPlot kMixPlot = {
    "line", "write_percent", {"path_count"}, {"requests_per_second", "p99_ns", "p999_ns"}};
// The threads of mixes, and the shares of writes among their requests.
inline constexpr uint32_t kMixThreads = 32;
inline constexpr uint32_t kWritePercents[] = {0, 10, 25, 50};

inline constexpr int kIoExperimentCount = 9;
// number is 1 to kIoExperimentCount.
Experiments RunIoExperiment(int number, const IoLab& lab);

// `bin/lab io`: the experiments of "What Modern NVMe Storage Can Do, And How To Exploit It" on the
// user's own disks.

struct IoFlags {
  std::string experiments = "all";
  std::string dir = ".";
  std::vector<std::string> paths;
  IoConfig config;
  std::string json_path;
  bool has_tmpfs = false;
};

CLI::App* AddIoCommand(CLI::App* app, IoFlags* flags);
// Returns the exit code.
int RunIo(IoFlags flags);

// Parses "all", or numbers and ranges: "1,4-6". False when a number is not an experiment's.
bool ParseExperiments(const std::string& text, std::vector<int>* numbers);

// The cost of a switch from one task to the next: coroutines, Boost.Context, threads of the system.
//
// Measured in CPU time of the process, which a busy machine disturbs little; the median of several
// rounds. The calling thread is pinned to one CPU meanwhile.

struct SwitchCost {
  // From one running task to the next one running, the scheduler's work included.
  double switch_ns = 0;
  double switch_cycles = 0;  // ticks of the time-stamp counter; 0 where there is none
  // Making a task, running it to its end, and freeing it.
  double create_ns = 0;
  // Memory of a task: bytes allocated, and how many of them were touched.
  uint64_t reserved_bytes = 0;
  uint64_t resident_bytes = 0;
};

struct SwitchLoad {
  // Tasks that take turns; threads of the system are always two.
  uint32_t task_count = 256;
  uint32_t round_count = 15;
  double seconds = 0.5;
};

// Suspended C++20 coroutines take turns in a fixed shuffled order.
Status CoroutineSwitches(const SwitchLoad& load, SwitchCost* cost);
// As CoroutineSwitches, but each task awaits an inner coroutine: the cost of a deeper call.
Status NestedCoroutineSwitches(const SwitchLoad& load, SwitchCost* cost);
// Boost.Context fibers with stacks of 16 KiB take turns in the same order.
Status BoostContextSwitches(const SwitchLoad& load, SwitchCost* cost);
// Two threads on one CPU that wake each other by turns.
Status FutexSwitches(const SwitchLoad& load, SwitchCost* cost);
Status EventFdSwitches(const SwitchLoad& load, SwitchCost* cost);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_LAB_H_
