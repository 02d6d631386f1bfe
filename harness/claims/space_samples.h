// Disk space and writes of a store that was overwritten, and the amplifications that follow.
//
// Plain values and pure functions.
#ifndef HARNESS_CLAIMS_SPACE_SAMPLES_H_
#define HARNESS_CLAIMS_SPACE_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harness {

// The state of a run at one moment. All counts only grow, except for `disk_bytes`.
struct SpaceSample {
  double seconds = 0;         // since the run began
  uint64_t write_count = 0;   // acknowledged writes of one record each
  uint64_t disk_bytes = 0;    // blocks of all files of the store
  uint64_t log_bytes = 0;     // written to logs and journal
  uint64_t index_bytes = 0;   // written to the index on disk
  uint64_t moved_bytes = 0;   // of live records that reclaim wrote again
  uint64_t device_bytes = 0;  // written to the device, by all programs; 0: not known
};

using SpaceSamples = std::vector<SpaceSample>;

// Disk bytes over the bytes of the live values; `live_count` is not 0.
double SpaceAmplification(uint64_t disk_bytes, uint64_t live_count);

// Bytes over those of `write_count` values; 0 when nothing was written.
double WriteAmplification(uint64_t bytes, uint64_t write_count);

// The first sample of the second half, by the number of writes; 0 without samples.
size_t SecondHalf(const SpaceSamples& samples);

// The most disk bytes in the second half.
uint64_t PeakDiskBytes(const SpaceSamples& samples);

// Writes a second between the samples; 0 when no time passed.
double WriteRate(const SpaceSample& first, const SpaceSample& last);

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_SAMPLES_H_
