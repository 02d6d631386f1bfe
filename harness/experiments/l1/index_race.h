// `bin/lab l1`: the lookups of the engine's own index, with variants in single places, as a table
// of rows.
//
// All variants have the same keys of eight bytes and find the same records, and all of them are in
// memory. Two indexes of the engine are open: one is flat, the other paged with a frame for every
// block. The blocks that the lab reaches in other ways are those of the paged index's extents.
// Contenders alternate in rounds.
#ifndef HARNESS_EXPERIMENTS_L1_INDEX_RACE_H_
#define HARNESS_EXPERIMENTS_L1_INDEX_RACE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/log/bucket_log.h"
#include "harness/experiments/l1/race.h"
#include "harness/experiments/l1/tables.h"
#include "harness/lab/core_shards.h"
#include "harness/lab/extent_blocks.h"
#include "harness/lab/flat_index.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/report.h"

namespace engine_race::harness {

// The gain of sharing nothing. Workers with tables, frames and epochs of their own are compared
// with as many threads that share all tables.
//
// Sharing threads look up one key after the other, by pointer, as the step "swizzled" does. The
// workers are themselves the foreground threads. Each takes keys of all tables, answers its own and
// hands the rest over to their owners. It also answers the keys that the others hand to it. All of
// this is within the measured time.

inline constexpr char kSharedNothing[] = "shared_nothing_gain";

struct L1ShardsShape {
  L1RoundsShape rounds;
  uint32_t thread_count = 1;
};

class L1Shards {
 public:
  // `files` and `rounds` outlive this.
  L1Shards(const L1ShardsShape& shape, L1Files* files, ClaimRounds* rounds)
      : shape_(shape), files_(*files), rounds_(*rounds) {}

  // Opens the shared tables and the workers' own, and loads all blocks into memory.
  Status Prepare();
  // Compares in alternating rounds; lookups are spread over all tables.
  Status Compare(const L1Lookups& lookups);

  // Runs the workers' part of a round.
  Status RunWorkers(const L1Lookups& lookups, const L1RunShape& shape, TimedPoint* point);
  // Answers by the sharing threads, with a chunk's lookups grouped by table.
  MakeL1Answer ByTable() const;

  nlohmann::json Describe() const;

 private:
  const L1ShardsShape shape_;
  L1Files& files_;
  ClaimRounds& rounds_;
  std::unique_ptr<L1Tables> shared_;
  std::unique_ptr<lab::CoreShards> shards_;
};

// The most memory that the indexes and the blocks take for a key, and the most that their stores
// take on disk.
inline constexpr uint64_t kL1IndexBytesPerKey = 110;
inline constexpr uint64_t kL1IndexDiskBytesPerKey = 64;

// Names of variants.
inline constexpr char kCachedBlocks[] = "blocks through the cache";
inline constexpr char kBlocksByPointer[] = "blocks by pointer";
inline constexpr char kPagedIndex[] = "paged";
inline constexpr char kPagedBatches[] = "paged, batched";
inline constexpr char kFlatBatches[] = "flat, batched";

class L1IndexRace {
 public:
  // Stores are made below the config's directory; the caller removes them.
  L1IndexRace(const L1RaceConfig& config, uint64_t key_count);
  L1IndexRace(const L1IndexRace&) = delete;
  L1IndexRace& operator=(const L1IndexRace&) = delete;

  // Makes the stores and opens all variants. Ends early, without variants, when the user
  // interrupts.
  Status Prepare();
  // Measures all variants, and appends the table.
  Status Compare(Experiments* tables);
  // Measures the variants with these names, by one thread each, and takes the ratios.
  Status Race(const std::vector<std::string>& names, const std::vector<L1Ratio>& ratios,
              ClaimRounds* rates) const;

  // Looks up all keys and adds their slots to *slot_sum.
  using FindKeys = std::function<Status(std::span<const uint64_t> keys, uint64_t* slot_sum)>;
  struct Variant {
    std::string name;
    FindKeys find;
  };
  // In the order of the table. After Prepare.
  const std::vector<Variant>& variants() const { return variants_; }
  // The drawn lookups. After Prepare.
  const L1Lookups& lookups() const { return *lookups_; }

 private:
  // A store with the keys, and an index over it: each may use those above it.
  struct Opened {
    std::unique_ptr<BucketLog> log;
    std::unique_ptr<l1::FrameCache> frames;
    std::unique_ptr<Index> index;
  };

  std::string DirOf(const char* name) const { return config_.dir + "/index-" + name; }
  Status MakeStore(const std::string& dir, const Options& options, Opened* opened);
  Status MakeFlat();
  Status MakePaged();
  // Looks up every key, so that every block of the paged index is in a frame.
  Status Warm();
  void DrawLookups();
  void AddVariants();
  L1Contender ContenderOf(const Variant& variant, const std::string& name, uint32_t threads) const;
  Experiment Table(const ClaimRounds& rates) const;

  const L1RaceConfig config_;
  const uint64_t key_count_;
  const Options options_;
  std::unique_ptr<lab::FlatIndex> arrays_;
  Opened flat_;
  Opened paged_;
  std::unique_ptr<lab::ExtentBlocks> blocks_;
  // Of the flat index, which has no frames.
  std::unique_ptr<L1Lookups> lookups_;
  std::vector<Variant> variants_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_INDEX_RACE_H_
