// Stores under the claims about space: how they are opened, watched while they are overwritten, and
// removed.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_SPACE_RUNS_H_
#define HARNESS_CLAIMS_SPACE_RUNS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/claims/space_config.h"
#include "harness/claims/space_loops.h"
#include "harness/claims/space_samples.h"
#include "harness/kv/kv_store.h"
#include "harness/measure/timed.h"
#include "harness/system/device_io.h"

namespace harness {

// The directory of a store, which goes with this object.
class ScratchStore {
 public:
  explicit ScratchStore(std::string dir) : dir_(std::move(dir)) {}
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  ~ScratchStore() { Remove(); }

  const std::string& dir() const { return dir_; }
  // Removes all files, and waits for the file system so that the next run does not pay for it.
  void Remove() const;

 private:
  const std::string dir_;
};

engine_race::Options SpaceOptions(const SpaceConfig& config, engine_race::Reclaim reclaim);

PutFn PutInto(engine_race::Store* store);
GetFn GetFrom(engine_race::Store* store);

// Takes samples of a store and its writers.
class SpaceProbe {
 public:
  // `store` may be null: then log, index and moved bytes are 0. All arguments outlive this.
  SpaceProbe(const std::string& dir, const engine_race::Store* store, const Overwriters& writers);

  SpaceSample Take() const;

 private:
  const std::string& dir_;
  const engine_race::Store* const store_;
  const Overwriters& writers_;
  const DeviceIo device_;
  const uint64_t begin_ns_;
};

// When a watch ends: with the first of these that is reached.
struct WatchEnd {
  double seconds = kNoLimitSeconds;
  uint64_t write_count = ~uint64_t{0};
};

// Samples writers that go on all the while. The first sample is taken at once, the last one at the
// end. kFull when the store takes more than config.most_store_bytes(), kIncomplete after an
// interrupt, kIOError when a write has failed. `label` begins each line of progress; empty: none.
engine_race::Status Watch(const SpaceConfig& config, const std::string& label,
                          const Overwriters& writers, const SpaceProbe& probe, const WatchEnd& end,
                          SpaceSamples* samples);

// A turn of a store that is in its steady state.
struct SpaceTurn {
  double rate = 0;  // writes a second
  uint64_t disk_bytes = 0;
  uint64_t peak_disk_bytes = 0;
  double device_amplification = 0;  // by the device's own count; 0: not known
};

// Opens the store, lets the writers run up, measures them, and closes the store. `turn_number`
// selects the records that are drawn.
engine_race::Status OverwriteTurn(const SpaceConfig& config, const SpaceRecords& records,
                                  const KvStoreKind& kind, const KvOptions& options,
                                  uint32_t turn_number, SpaceTurn* turn);

// Brings a store to its steady state: opens it, overwrites it until the passes or the seconds of
// SpaceConfig::precondition_* are over, and closes it.
engine_race::Status Precondition(const SpaceConfig& config, const std::string& label,
                                 const SpaceRecords& records, const KvStoreKind& kind,
                                 const KvOptions& options);

// Opens a new store, fills it and closes it. Returns the writes a second, without opening and
// closing.
engine_race::Status FillNew(const SpaceConfig& config, const SpaceRecords& records,
                            const KvStoreKind& kind, const KvOptions& options, double* rate);

// Megabytes of values a second.
inline double Megabytes(double writes) { return writes * kValueSize * 1e-6; }

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_RUNS_H_
