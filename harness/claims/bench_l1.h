// The measured claims about lookups in memory. Each step from a cache of blocks to pointers is
// compared with the others and with RocksDB. Further claims say how much the engine gains from hot
// values.
//
// Compared contenders alternate in short rounds; a claim is the median of its rounds' ratios. Each
// part opens its own tables, in memory, and closes them at its end.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_L1_H_
#define HARNESS_CLAIMS_BENCH_L1_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/experiments/l1/engine.h"
#include "harness/experiments/l1/rounds.h"
#include "harness/experiments/l1/shards.h"
#include "harness/experiments/l1/tables.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks_points.h"

namespace harness {

struct L1BenchConfig {
  std::string dir;        // empty, or of an earlier run of the same
  std::string tmpfs_dir;  // empty: the parts that need it fail
  uint64_t record_count = 20000000;
  uint32_t table_count = 32;
  harness::TableShape shape;
  // One thread for each CPU suits the machine best.
  uint32_t thread_count = 1;
  L1RoundsShape rounds;
  uint64_t lookup_count = uint64_t{1} << 22;  // drawn beforehand
  uint64_t hot_key_count = 4000;
  uint32_t hot_thread_count = 2;
  uint32_t batch_size = 64;
  uint32_t next_count = 10;  // after a seek
  // The shape of the engine's own reads. Directory, rounds and seed are taken from above.
  L1EngineShape engine;
  // The opponent; empty where there is none, and then its claims are not measured.
  MakeRocksPointsFn make_rocks;
  // Names of claims.
  std::set<std::string> wanted;
  // A run that only shows that everything works: a figure that cannot be measured is no error.
  bool is_smoke = false;

  L1Records records() const {
    return {shape, table_count, record_count / table_count, rounds.seed};
  }
};

std::vector<std::string> L1ClaimNames();
// The memory and disk space of the part that needs the most of each.
uint64_t L1BenchMemoryBytes(const L1BenchConfig& config);
uint64_t L1BenchDiskBytes(const L1BenchConfig& config);
uint64_t L1BenchTmpfsBytes(const L1BenchConfig& config);

class BenchL1 {
 public:
  explicit BenchL1(const L1BenchConfig& config);

  // False when something failed; errors() says what. Calls `after_part` when there is something new
  // to save.
  bool Run(const std::function<void()>& after_part);

  const std::vector<std::string>& errors() const { return errors_; }
  // {"claims", "what", "figures", "rounds", "config", "machine", ...}
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  using Status = engine_race::Status;

  bool Wants(const std::string& claim) const { return config_.wanted.contains(claim); }
  bool WantsAny(std::initializer_list<const char*> claims) const;
  bool MustStop() const;

  Status Steps();
  Status Searches();
  Status Seeks();
  Status Protections();
  Status Batches();
  Status SharedNothing();
  Status Rocks();
  Status Engine();

  // Opens the tables of a step; null where this CPU lacks the step's instructions.
  Status Open(const char* step, L1Tables** tables);
  Status AddGets(const char* step, const L1Lookups& lookups, uint32_t thread_count,
                 const std::string& suffix, std::vector<L1Contender>* contenders);
  Status AddRocks(std::vector<L1Contender>* contenders);
  // The uniform draw that several parts share.
  const L1Lookups& Uniform();
  Status Compare(const std::vector<L1Contender>& contenders, const std::vector<L1Ratio>& ratios) {
    return RunL1Rounds(config_.rounds, contenders, ratios, &rounds_);
  }

  const L1BenchConfig config_;
  ClaimRounds rounds_;
  std::unique_ptr<L1Files> files_;
  std::unique_ptr<L1Lookups> uniform_;
  // Opened by the running part, closed at its end.
  std::map<std::string, std::unique_ptr<L1Tables>> tables_;
  std::vector<std::unique_ptr<RocksPoints>> rocks_;
  nlohmann::json rocks_json_;
  nlohmann::json shards_json_;
  nlohmann::json engine_json_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_L1_H_
