// Lookups in an index that fits its memory, beside flat arrays with the same keys, one by one and
// in batches.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "harness/claims/index_bench.h"
#include "harness/data/mix.h"
#include "harness/lab/flat_index.h"
#include "harness/load/fill_keys.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

using lab::FlatIndex;

Status IndexBench::TimeLookups(const std::string& figure, uint64_t key_count,
                               const IndexLookups& lookups, uint64_t* expected_sum) {
  uint64_t sum = 0;
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(lookups(&sum));
  rounds_.Note(figure, SecondsSince(began_ns) * 1e9 / static_cast<double>(key_count));
  if (*expected_sum == 0) *expected_sum = sum;
  return sum == *expected_sum ? Status::Ok() : Status::Corruption("a key has another slot");
}

// The indexes of one kind of keys, over the same log.
class ResidentPair {
 public:
  ResidentPair(IndexBench* bench, ResidentKeys kind)
      : bench_(*bench),
        kind_(kind),
        options_(OptionsOf(*bench)),
        geometry_(GeometryFrom(options_)) {}

  Status Make(const std::string& dir) {
    counts_ = ResidentCounts(geometry_, kind_, bench_.key_count_);
    ENGINE_RACE_RETURN_IF_ERROR(WriteKeyLogs(
        options_, dir, counts_,
        [this](uint32_t bucket, uint32_t slot) { return KeyRecord{.key = KeyAt(bucket, slot)}; }));
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options_, dir, &log_));
    ENGINE_RACE_RETURN_IF_ERROR(lab::MakeFlatIndex(log_.get(), &flat_));
    ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log_.get(), options_, &index_));
    const uint32_t filled_buckets = kind_ == ResidentKeys::kSequential ? 1 : options_.bucket_count;
    for (uint64_t i = 0; i < bench_.lookup_count_; ++i) {
      const uint64_t word = MixAt(bench_.seed_, i);
      const auto bucket = static_cast<uint32_t>(AsBelow(word, filled_buckets));
      keys_.push_back(KeyAt(bucket, AsBelow(Mix64(word), counts_[bucket])));
    }
    return Status::Ok();
  }

  Status Compare(const std::string& suffix) {
    const std::pair<std::string, IndexLookups> ways[] = {
        {"flat lookup_ns", [this](uint64_t* sum) { return lab::FindEach(*flat_, keys_, sum); }},
        {"resident lookup_ns",
         [this](uint64_t* sum) { return lab::FindEach(*index_, keys_, sum); }},
        {"flat batched lookup_ns",
         [this](uint64_t* sum) { return lab::FindTogether(*flat_, keys_, sum); }},
        {"resident batched lookup_ns",
         [this](uint64_t* sum) { return lab::FindTogether(*index_, keys_, sum); }}};
    std::vector<Turn> turns;
    turns.reserve(std::size(ways));
    for (const auto& way : ways) {
      turns.emplace_back([&, name = way.first + suffix] {
        return bench_.TimeLookups(name, keys_.size(), way.second, &expected_sum_);
      });
    }
    return bench_.rounds_.Run(
        {.count = bench_.round_count_, .warms_up = true}, turns,
        {{"resident_lookup_ns_ratio" + suffix, ways[1].first + suffix, ways[0].first + suffix},
         {"resident_batch_ratio" + suffix, ways[3].first + suffix, ways[2].first + suffix}});
  }

 private:
  static Options OptionsOf(const IndexBench& bench) {
    Options options = bench.FilledOptions();
    // All of the index fits.
    options.memory_budget_bytes =
        std::max(options.memory_budget_bytes, bench.key_count_ * kIndexBytesPerRecord);
    return options;
  }
  uint64_t KeyAt(uint32_t bucket, uint64_t slot) const {
    return ResidentKey(geometry_, kind_, bucket, slot, bench_.seed_);
  }

  IndexBench& bench_;
  const ResidentKeys kind_;
  const Options options_;
  const Geometry geometry_;
  std::vector<uint64_t> counts_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<FlatIndex> flat_;
  std::unique_ptr<Index> index_;
  std::vector<uint64_t> keys_;
  uint64_t expected_sum_ = 0;
};

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
  constexpr uint64_t kClusterKeys = 64;
  if (kind == ResidentKeys::kSequential) return slot;
  if (kind == ResidentKeys::kUniform) return FilledKey(geometry, bucket, slot, seed);
  const uint64_t place = FilledKey(geometry, bucket, slot / kClusterKeys, seed);
  return place / kClusterKeys * kClusterKeys + slot % kClusterKeys;
}

Status IndexBench::MeasureResident() {
  constexpr std::pair<ResidentKeys, const char*> kKinds[] = {
      {ResidentKeys::kUniform, ", uniform"},
      {ResidentKeys::kClustered, ", clustered"},
      {ResidentKeys::kSequential, ", sequential"}};
  double worst_lookup = 0;
  double worst_batch = 0;
  for (const auto& [kind, suffix] : kKinds) {
    {
      ResidentPair pair(this, kind);
      ENGINE_RACE_RETURN_IF_ERROR(pair.Make(store_dir()));
      ENGINE_RACE_RETURN_IF_ERROR(pair.Compare(suffix));
    }
    std::filesystem::remove_all(store_dir());
    worst_lookup =
        std::max(worst_lookup, rounds_.Median(std::string("resident_lookup_ns_ratio") + suffix));
    worst_batch =
        std::max(worst_batch, rounds_.Median(std::string("resident_batch_ratio") + suffix));
  }
  rounds_.Settle("resident_lookup_ns_ratio", worst_lookup);
  rounds_.Settle("resident_batch_ratio", worst_batch);
  return Status::Ok();
}

}  // namespace engine_race::harness
