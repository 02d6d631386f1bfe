// Parts of the bench about space. Some compare an overwritten store with one that never was
// overwritten, dense keys with spread ones, and large buckets with small ones. The others measure
// what a store takes of its device, in little memory, and with few records.
#ifndef HARNESS_CLAIMS_SPACE_PROMISES_H_
#define HARNESS_CLAIMS_SPACE_PROMISES_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/claims/bench.h"
#include "harness/claims/space_loads.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

// The figures of the sides of claims about a device and about little memory.
inline constexpr char kOverwriteDeviceRate[] = "overwriting, to and from the device, MB/s";
inline constexpr char kFioMixRate[] = "fio with the same mix and sizes, MB/s";
inline constexpr char kDefaultStagingRate[] = "little memory, default staging, writes a second";
inline constexpr char kWrittenStagingRate[] = "little memory, staging with pwrite, writes a second";

// The settings that the parts take over from their bench.
struct PromiseRun {
  SpaceShape shape;  // its stores lie below its directory; its records do not count
  double seconds = 1;
  double ramp_seconds = 0;
  bool is_smoke = false;
};

// Its parts are over several files.
class SpacePromises {
 public:
  // Adds its settings to the bench. Both outlive this.
  SpacePromises(Bench* bench, ClaimRounds* rounds);

  std::vector<BenchPart> Parts(PromiseRun run);

 private:
  // A store that was overwritten and one that never was, of the same records.
  struct Pair {
    SpaceShape aged;
    SpaceShape fresh;
  };
  Status MakePair(const SpaceShape& shape, Pair* pair);
  // Fills a store and overwrites it, some times over.
  Status MakeAged(const SpaceShape& shape);
  // Overwrites drawn records of an open store, other ones in each call.
  Status Overwrite(const SpaceShape& shape, const WatchShape& watch, Store* store,
                   SpaceSamples* samples);
  // Overwrites an eighth of the records, so that reclaim has something to do.
  Status OverwriteSome(const SpaceShape& shape, Store* store);
  // The failure of something beside the engine; a smoke run goes on without its figures.
  Status Missed(const PromiseRun& run, const Status& status) const;

  Status MeasureReopening(const PromiseRun& run);
  Status MeasureCheckpoints(const PromiseRun& run);
  Status MeasureIncrement(const PromiseRun& run);
  Status MeasureRanges(const PromiseRun& run);
  Status MeasureDenseKeys(const PromiseRun& run);
  Status MeasureBuckets(const PromiseRun& run);
  Status MeasureDevice(const PromiseRun& run);
  Status MeasureSmallMemory(const PromiseRun& run);
  Status MeasureSmallStores(const PromiseRun& run);

  ClaimRounds* const rounds_;
  uint64_t overwrite_count_ = 0;  // selects the records that are drawn

  Knob<uint64_t> data_bytes_;
  Knob<uint32_t> round_count_;
  Knob<uint64_t> large_bucket_records_;
  Knob<uint64_t> small_bucket_records_;
  Knob<uint64_t> memory_limit_bytes_;
  Knob<double> limited_seconds_;
  Knob<uint64_t> limited_write_count_;
  Knob<uint64_t> small_record_count_;
  Knob<uint64_t> small_store_count_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_PROMISES_H_
