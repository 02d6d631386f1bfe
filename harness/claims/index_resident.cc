#include "harness/claims/index_resident.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/log/bucket_log.h"
#include "harness/data/mix.h"
#include "harness/lab/flat_index.h"
#include "harness/lab/index_finds.h"
#include "harness/load/fill_keys.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::BucketLog;
using engine_race::Geometry;
using engine_race::Index;
using engine_race::KeyRecord;
using engine_race::Options;
using engine_race::Status;
using engine_race::l1::EpochManager;
using lab::FlatIndex;

constexpr uint64_t kClusterKeys = 64;
constexpr std::pair<ResidentKeys, const char*> kKinds[] = {
    {ResidentKeys::kUniform, ", uniform"},
    {ResidentKeys::kClustered, ", clustered"},
    {ResidentKeys::kSequential, ", sequential"}};

// The indexes of one kind of keys, over the same log.
class ResidentPair {
 public:
  ResidentPair(const IndexBenchRun& run, ResidentKeys kind)
      : run_(run),
        kind_(kind),
        options_(OptionsOf(run.config)),
        geometry_(engine_race::GeometryFrom(options_)) {}

  Status Make() {
    counts_ = ResidentCounts(geometry_, kind_, run_.config.key_count);
    ENGINE_RACE_RETURN_IF_ERROR(WriteKeyLogs(
        options_, run_.store_dir(), counts_,
        [this](uint32_t bucket, uint32_t slot) { return KeyRecord{.key = KeyAt(bucket, slot)}; }));
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options_, run_.store_dir(), &log_));
    ENGINE_RACE_RETURN_IF_ERROR(lab::MakeFlatIndex(log_.get(), &flat_));
    ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log_.get(), options_, &index_));
    DrawKeys();
    return Status::Ok();
  }

  Status Compare(const std::string& suffix) {
    const auto batches = [this](const auto& find) {
      return [this, find](uint64_t* sum) {
        const std::span<const uint64_t> keys(keys_);
        for (size_t i = 0; i < keys.size(); i += FlatIndex::kBatchKeys) {
          const size_t count = std::min(FlatIndex::kBatchKeys, keys.size() - i);
          ENGINE_RACE_RETURN_IF_ERROR(find(keys.subspan(i, count), sum));
        }
        return Status::Ok();
      };
    };
    const std::function<Status(uint64_t*)> lookups[] = {
        [this](uint64_t* sum) { return lab::FindEach(*flat_, keys_, sum); },
        [this](uint64_t* sum) { return lab::FindEach(*index_, &epochs_, keys_, sum); },
        batches([this](auto keys, uint64_t* sum) { return lab::FindTogether(*flat_, keys, sum); }),
        batches([this](auto keys, uint64_t* sum) {
          return lab::FindTogether(*index_, &epochs_, keys, sum);
        })};
    constexpr size_t kWays = std::size(lookups);
    std::array<double, kWays> nanoseconds = {};
    std::vector<Turn> turns;
    for (size_t way = 0; way < kWays; ++way) {
      turns.push_back(
          [this, &lookup = lookups[way], &ns = nanoseconds[way]] { return Time(lookup, &ns); });
    }
    // The first round warms up: it does not count.
    bool is_warm = false;
    return AlternatingRounds(run_.config.round_count + 1, turns, [&](uint32_t) {
      if (!std::exchange(is_warm, true)) return;
      const char* const names[kWays] = {"flat lookup_ns", "resident lookup_ns",
                                        "flat batched lookup_ns", "resident batched lookup_ns"};
      for (size_t way = 0; way < kWays; ++way) {
        run_.rounds->Note(names[way] + suffix, nanoseconds[way]);
      }
      run_.rounds->NoteRatio(kResidentLookup + suffix, nanoseconds[1], nanoseconds[0]);
      run_.rounds->NoteRatio(kResidentBatch + suffix, nanoseconds[3], nanoseconds[2]);
    });
  }

 private:
  static Options OptionsOf(const IndexBenchConfig& config) {
    Options options = FilledStoreOptions(config);
    // All of the index fits.
    options.memory_budget_bytes = std::max(options.memory_budget_bytes, config.key_count * 40);
    return options;
  }

  uint64_t KeyAt(uint32_t bucket, uint64_t slot) const {
    return ResidentKey(geometry_, kind_, bucket, slot, run_.config.seed);
  }

  void DrawKeys() {
    keys_.clear();
    const uint32_t filled_buckets = kind_ == ResidentKeys::kSequential ? 1 : options_.bucket_count;
    for (uint64_t i = 0; i < run_.config.lookup_count; ++i) {
      const uint64_t word = MixAt(run_.config.seed, i);
      const auto bucket = static_cast<uint32_t>(AsBelow(word, filled_buckets));
      keys_.push_back(KeyAt(bucket, AsBelow(Mix64(word), counts_[bucket])));
    }
  }

  Status Time(const std::function<Status(uint64_t*)>& lookups, double* nanoseconds) {
    uint64_t sum = 0;
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(lookups(&sum));
    *nanoseconds = SecondsSince(began_ns) * 1e9 / static_cast<double>(keys_.size());
    if (slot_sum_ == 0) slot_sum_ = sum;
    return sum == slot_sum_ ? Status::Ok() : Status::Corruption("a key has another slot");
  }

  const IndexBenchRun& run_;
  const ResidentKeys kind_;
  const Options options_;
  const Geometry geometry_;
  std::vector<uint64_t> counts_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<FlatIndex> flat_;
  std::unique_ptr<Index> index_;
  EpochManager epochs_;
  std::vector<uint64_t> keys_;
  uint64_t slot_sum_ = 0;
};

}  // namespace

std::vector<uint64_t> ResidentCounts(const Geometry& geometry, ResidentKeys kind,
                                     uint64_t key_count) {
  const uint64_t group = std::max(geometry.values_per_group(), geometry.keys_per_group());
  std::vector<uint64_t> counts(geometry.bucket_count, 0);
  if (kind == ResidentKeys::kSequential) {
    counts[0] = std::min(key_count, geometry.bucket_capacity_records) / group * group;
  } else {
    const uint64_t groups = std::max<uint64_t>(key_count / geometry.bucket_count / group, 1);
    std::fill(counts.begin(), counts.end(), groups * group);
  }
  return counts;
}

uint64_t ResidentKey(const Geometry& geometry, ResidentKeys kind, uint32_t bucket, uint64_t slot,
                     uint64_t seed) {
  if (kind == ResidentKeys::kSequential) return slot;
  if (kind == ResidentKeys::kUniform) return FilledKey(geometry, bucket, slot, seed);
  const uint64_t place = FilledKey(geometry, bucket, slot / kClusterKeys, seed);
  return place / kClusterKeys * kClusterKeys + slot % kClusterKeys;
}

Status MeasureResident(const IndexBenchRun& run) {
  double worst_lookup = 0;
  double worst_batch = 0;
  for (const auto& [kind, suffix] : kKinds) {
    {
      ResidentPair pair(run, kind);
      ENGINE_RACE_RETURN_IF_ERROR(pair.Make());
      ENGINE_RACE_RETURN_IF_ERROR(pair.Compare(suffix));
    }
    std::error_code ignored;
    std::filesystem::remove_all(run.store_dir(), ignored);
    worst_lookup =
        std::max(worst_lookup, run.rounds->Median(std::string(kResidentLookup) + suffix));
    worst_batch = std::max(worst_batch, run.rounds->Median(std::string(kResidentBatch) + suffix));
  }
  run.rounds->Settle(kResidentLookup, worst_lookup);
  run.rounds->Settle(kResidentBatch, worst_batch);
  return Status::Ok();
}

}  // namespace harness
