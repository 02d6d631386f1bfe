// The experiments of `bin/lab io`, and the lab that each of them is given.
//
// An experiment is a function from a lab to tables. It takes as long as its configuration says. One
// runs at a time.
#ifndef HARNESS_EXPERIMENTS_IO_LAB_H_
#define HARNESS_EXPERIMENTS_IO_LAB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/experiments/io/raw.h"
#include "harness/experiments/io/space.h"
#include "harness/experiments/io/store.h"
#include "harness/measure/report.h"

namespace harness {

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

class IoLab {
 public:
  IoLab(const IoConfig& config, IoSpace* space) : config_(config), space_(space) {}

  const IoConfig& config() const { return config_; }
  double seconds() const { return config_.seconds; }
  IoSpace& space() const { return *space_; }

  // first, 2 * first, ... last; in a smoke run first and last alone.
  std::vector<uint32_t> Powers(uint32_t first, uint32_t last) const;
  // The files of noise. When they cannot be made, a row of `experiment` says so and the span is
  // empty.
  std::span<const RawFile> RawFiles(Experiment* experiment) const;

  Experiment Begin(int number, const std::string& name, const std::string& question,
                   const std::string& unit) const;
  // Notes when the paths are only stand-ins for devices.
  void NoteStandIns(Experiment* experiment) const;
  // Takes one point and adds it to the experiment. Does nothing when the user has interrupted.
  void Measure(Experiment* experiment, ResultRow row,
               const std::function<engine_race::Status(TimedPoint*)>& take) const;
  // Measures reads through a queue. When a back end is unavailable, its row says why.
  void MeasureRaw(Experiment* experiment, ResultRow row, const RawLoad& load) const;
  // Adds the row with the error, if `status` is one. Returns whether it is Ok.
  bool Check(const engine_race::Status& status, ResultRow row, Experiment* experiment) const;

 private:
  const IoConfig& config_;
  IoSpace* const space_;
};

Experiments ScalingOverPaths(const IoLab& lab);
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
Experiments StripeUnits(const IoLab& lab);

inline constexpr int kIoExperimentCount = 10;
// number is 1 to kIoExperimentCount.
Experiments RunIoExperiment(int number, const IoLab& lab);

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_IO_LAB_H_
