// What every I/O experiment is given, and the list of them: `bin/lab io` runs these.
//
// An experiment is a function from a lab to its tables. Functions that take as long as they are
// told; one at a time.
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
  // Of a store, and of noise as many pages of 4 KiB.
  uint64_t record_count = uint64_t{1} << 17;
  double seconds = 1;
  // A raw device, only read: what the file system and the block layer cost beside it. May be empty.
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
  // The files of noise. Where they cannot be had a row of `experiment` says so, and there are none.
  std::span<const RawFile> RawFiles(IoExperiment* experiment) const;

  IoExperiment Begin(int number, const std::string& name, const std::string& question,
                     const std::string& unit) const;
  // Says where the paths are only stand-ins.
  void NoteStandIns(IoExperiment* experiment) const;
  // Takes one point and adds it to the experiment; nothing when the user has interrupted.
  void Measure(IoExperiment* experiment, IoRow row,
               const std::function<engine_race::Status(IoPoint*)>& take) const;
  // As Measure, of reads through a queue; a back end that cannot be had says why.
  void MeasureRaw(IoExperiment* experiment, IoRow row, const RawLoad& load) const;
  // Adds the row with what went wrong, if anything did; tells whether all is well.
  bool Check(const engine_race::Status& status, IoRow row, IoExperiment* experiment) const;

 private:
  const IoConfig& config_;
  IoSpace* const space_;
};

using IoTables = std::vector<IoExperiment>;

IoTables ScalingOverPaths(const IoLab& lab);
IoTables PageSizes(const IoLab& lab);
IoTables RequestsInFlight(const IoLab& lab);
IoTables BackEnds(const IoLab& lab);
// A part of BackEnds: the raw device, by every back end and by NVMe passthrough.
IoExperiment RawDevice(const IoLab& lab);
IoTables IoModels(const IoLab& lab);
IoTables TasksPerWorker(const IoLab& lab);
IoTables ThreadsOverCores(const IoLab& lab);
IoTables GrowingData(const IoLab& lab);
IoTables Ablation(const IoLab& lab);
IoTables StripeUnits(const IoLab& lab);

inline constexpr int kIoExperimentCount = 10;
// number is 1 to kIoExperimentCount.
IoTables RunIoExperiment(int number, const IoLab& lab);

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_IO_LAB_H_
