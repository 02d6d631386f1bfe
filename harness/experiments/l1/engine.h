// The gain of the engine from hot values in memory, and their cost when no value is hot.
//
// Two stores with the same records are open side by side, one with frames and one without. Short
// alternating rounds read them. The stores lie on the disk, and once more on tmpfs, where a read
// costs only its own CPU time. A store that fits the memory is read twice.
#ifndef HARNESS_EXPERIMENTS_L1_ENGINE_H_
#define HARNESS_EXPERIMENTS_L1_ENGINE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

inline constexpr char kZipfGain[] = "zipf_read_gain";
inline constexpr char kHitRate[] = "hit_rate_after_scan";
inline constexpr char kUniformCost[] = "uniform_read_cost";
inline constexpr char kHotRead[] = "hot_read_vs_memcpy";
inline constexpr char kSecondEpoch[] = "second_epoch_from_memory";

struct L1EngineShape {
  std::string dir;        // on a disk; new stores are made in here, the caller removes them
  std::string tmpfs_dir;  // likewise
  uint64_t memory_budget_bytes = uint64_t{2} << 30;
  // On the disk: the values are four times as large as the memory budget.
  uint64_t record_count = uint64_t{1} << 21;
  uint32_t bucket_count = 1024;
  // As in the race.
  uint32_t thread_count = 64;
  // Further runs call MultiRead from fewer threads.
  uint32_t batch_thread_count = 2;
  uint32_t keys_per_call = 1000;
  // Warming reads until the hit rate stops growing: in steps of this size, and at most this many.
  uint64_t warming_read_count = uint64_t{1} << 20;
  uint32_t warming_step_count = 40;
  // Reads over which the hit rate is measured.
  uint64_t probe_read_count = uint64_t{1} << 17;
  // On tmpfs: the values are 64 times as large as the frames.
  uint64_t uniform_record_count = uint64_t{1} << 18;
  uint32_t uniform_thread_count = 2;
  // On tmpfs: all of them in frames.
  uint64_t hot_record_count = uint64_t{1} << 16;
  // On the disk, and in frames of the default budget after one pass.
  uint64_t epoch_record_count = uint64_t{1} << 18;
  uint32_t round_count = 9;
  double seconds = 1;  // of each timed run
  uint64_t seed = 1;
};

// The most that the stores take.
uint64_t L1EngineDiskBytes(const L1EngineShape& shape);
uint64_t L1EngineTmpfsBytes(const L1EngineShape& shape);
uint64_t L1EngineMemoryBytes(const L1EngineShape& shape);

class L1Engine {
 public:
  // `rounds` outlives this.
  L1Engine(const L1EngineShape& shape, ClaimRounds* rounds) : shape_(shape), rounds_(*rounds) {}

  // Measures zipf_read_gain: Zipfian reads of the disk, exponent 0.99, by Read from many threads
  // and by MultiRead. ScanOnce uses the same stores.
  Status CompareZipf();
  // Measures the hit rate before and after one Range over everything. Also notes it after one
  // MultiRead of everything. Call it after CompareZipf.
  Status ScanOnce();
  // Measures the CPU time of a uniform read with frames over that without, less 1.
  Status CompareUniform();
  // Measures a Read of a hot value over a memcpy of as many bytes, both in random order.
  Status CompareHot();
  // Measures a second pass of MultiRead over all records of a store over the first pass after the
  // opening.
  Status CompareEpochs();

  // Describes the stores and how they were warmed.
  const nlohmann::json& about() const { return about_; }

 private:
  // A store of a comparison.
  struct Side {
    const char* what;  // ends its figures
    std::unique_ptr<StoreRuns> reads = nullptr;
    uint64_t run_count = 0;
  };

  // Writes a store and opens it.
  Status Make(const StoreShape& shape, const Options& options, Side* side);
  // Both sides draw the same records in their n-th runs.
  Status Run(const RecordDraw& draw, const ReadShape& shape, Side* side, TimedPoint* point,
             FrameCounts* frames);
  Status Warm(const RecordDraw& draw);
  // Notes the rate of reads, and the hit rate of the side with frames.
  Turn ZipfTurn(const RecordDraw& draw, const ReadShape& shape, const std::string& name,
                Side* side);
  Status UniformTurn(const RecordDraw& draw, Side* side);
  Status Probe(const RecordDraw& draw, double* hit_rate);
  // Scans everything by Range or by MultiRead.
  Status ScanTurn(const RecordDraw& draw, bool by_range);
  Status EpochsTurn(const StoreShape& shape, const Options& options);
  Status WarmHot(StoreRuns* reads, uint64_t* pass_count);
  Options DiskOptions(bool has_frames) const;

  const L1EngineShape shape_;
  ClaimRounds& rounds_;
  nlohmann::json about_;
  Side with_{"with frames"};
  Side without_{"without"};
};

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_ENGINE_H_
