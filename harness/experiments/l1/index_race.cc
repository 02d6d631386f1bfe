#include "harness/experiments/l1/index_race.h"

#include <algorithm>
#include <bit>

#include "engine_race/base/assert.h"
#include "engine_race/log/format.h"
#include "harness/data/mix.h"
#include "harness/lab/node_search.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

using l1::FrameCache;
using lab::FlatIndex;
using lab::NodeSearch;

namespace {

// About as many as the engine has in a bucket of the default geometry with 64 million keys.
constexpr uint64_t kBucketKeys = uint64_t{1} << 16;

Options OptionsOf(uint64_t key_count) {
  Options options = QuietOptions();
  const auto wanted = std::bit_floor(std::max<uint64_t>(key_count / kBucketKeys, 1));
  options.bucket_count = static_cast<uint32_t>(std::min<uint64_t>(wanted, 1024));
  options.file_count = std::min(options.file_count, options.bucket_count);
  // All of the index fits, and no thread works on it by itself.
  options.memory_budget_bytes = std::max(options.memory_budget_bytes, key_count * 40);
  options.index_idle_ms = 0;
  return options;
}

}  // namespace

L1IndexRace::L1IndexRace(const L1RaceConfig& config, uint64_t key_count)
    : config_(config), key_count_(key_count), options_(OptionsOf(key_count)) {}

Status L1IndexRace::Prepare() {
  for (const auto step : {&L1IndexRace::MakeFlat, &L1IndexRace::MakePaged, &L1IndexRace::Warm}) {
    ENGINE_RACE_RETURN_IF_ERROR((this->*step)());
    if (Interrupted()) return Status::Ok();
  }
  DrawLookups();
  AddVariants();
  return Status::Ok();
}

Status L1IndexRace::MakeStore(const std::string& dir, const Options& options, Opened* opened) {
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(options, dir, key_count_, config_.records.seed));
  return BucketLog::Open(options, dir, &opened->log);
}

Status L1IndexRace::MakeFlat() {
  ENGINE_RACE_RETURN_IF_ERROR(MakeStore(DirOf("flat"), options_, &flat_));
  ENGINE_RACE_RETURN_IF_ERROR(lab::MakeFlatIndex(flat_.log.get(), &arrays_));
  return Index::Build(flat_.log.get(), options_, &flat_.index);
}

Status L1IndexRace::MakePaged() {
  Options options = options_;
  options.index_memory_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(MakeStore(DirOf("paged"), options, &paged_));
  // A frame for each block, and some to spare: none is ever evicted.
  const uint64_t blocks = key_count_ / format::kIndexBlockRecords;
  const auto frames = static_cast<uint32_t>(blocks * 5 / 4 + 4 * options.bucket_count + 1024);
  ENGINE_RACE_RETURN_IF_ERROR(
      FrameCache::Create(FrameCache::BytesFor(frames), /*share=*/nullptr, &paged_.frames));
  ENGINE_RACE_RETURN_IF_ERROR(
      Index::Build(paged_.log.get(), options, &paged_.index, paged_.frames.get()));
  // The root names the extents, from which the lab reads the same blocks.
  ENGINE_RACE_RETURN_IF_ERROR(paged_.index->Save(~uint64_t{0}));
  return lab::ExtentBlocks::Load(*paged_.log, &blocks_);
}

Status L1IndexRace::Warm() {
  return ForEachOnThreads(options_.bucket_count, [this](uint32_t bucket) {
    for (uint64_t slot = 0; slot < paged_.log->RecordCount(bucket); ++slot) {
      ValueRef ref;
      ENGINE_RACE_RETURN_IF_ERROR(paged_.index->Find(
          FilledKey(paged_.log->geometry(), bucket, slot, config_.records.seed), &ref));
    }
    return Status::Ok();
  });
}

void L1IndexRace::DrawLookups() {
  const IndexKeys drawn(options_, key_count_, config_.records.seed);
  const uint64_t count =
      std::max<uint64_t>(config_.lookup_count / L1Lookups::kChunk, 1) * L1Lookups::kChunk;
  std::vector<uint64_t> keys(count);
  std::vector<uint64_t> slots(count);
  for (uint64_t i = 0; i < count; ++i) {
    const IndexKeys::Place place = drawn.Present(MixAt(config_.records.seed, i));
    keys[i] = place.key;
    slots[i] = place.slot;
  }
  lookups_ = std::make_unique<L1Lookups>(keys, slots);
}

void L1IndexRace::AddVariants() {
  using Keys = std::span<const uint64_t>;
  variants_.push_back({kCachedBlocks, [this](Keys keys, uint64_t* sum) {
                         return blocks_->FindInCache(keys, sum);
                       }});
  variants_.push_back({kBlocksByPointer, [this](Keys keys, uint64_t* sum) {
                         return blocks_->FindByPointer(keys, sum);
                       }});
  variants_.push_back(
      {std::string(kBlocksByPointer) + ", binary search",
       [this](Keys keys, uint64_t* sum) { return blocks_->FindByHalving(keys, sum); }});
  for (const NodeSearch search :
       {NodeSearch::kEarlyExit, NodeSearch::kBranchless, NodeSearch::kAvx2, NodeSearch::kAvx512}) {
    const lab::NodeSearchFn kernel = lab::NodeSearchKernel(search);
    if (kernel == nullptr) continue;
    variants_.push_back({std::string(kBlocksByPointer) + ", tree, " + lab::NodeSearchName(search),
                         [this, kernel](Keys keys, uint64_t* sum) {
                           return blocks_->FindByNodes(kernel, keys, sum);
                         }});
  }
  const auto add_index = [this](const std::string& name, const Index* index) {
    variants_.push_back(
        {name, [index](Keys keys, uint64_t* sum) { return lab::FindEach(*index, keys, sum); }});
    variants_.push_back({name + ", batched", [index](Keys keys, uint64_t* sum) {
                           return lab::FindTogether(*index, keys, sum);
                         }});
  };
  add_index(kPagedIndex, paged_.index.get());
  add_index("flat", flat_.index.get());
  variants_.push_back({"flat arrays", [this](Keys keys, uint64_t* sum) {
                         return lab::FindEach(*arrays_, keys, sum);
                       }});
  variants_.push_back({"flat arrays, batched", [this](Keys keys, uint64_t* sum) {
                         return lab::FindTogether(*arrays_, keys, sum);
                       }});
}

Status L1IndexRace::Compare(Experiments* tables) {
  if (Interrupted()) return Status::Ok();
  std::vector<L1Contender> contenders;
  for (const Variant& variant : variants_) {
    for (const uint32_t threads : config_.thread_counts) {
      contenders.push_back(ContenderOf(variant, L1Named(variant.name, threads), threads));
    }
  }
  ClaimRounds rates({});
  ENGINE_RACE_RETURN_IF_ERROR(RunL1Rounds(config_.rounds, contenders, {}, &rates));
  if (!Interrupted()) tables->push_back(Table(rates));
  return Status::Ok();
}

L1Contender L1IndexRace::ContenderOf(const Variant& variant, const std::string& name,
                                     uint32_t threads) const {
  const MakeL1Answer answer = [&variant] {
    return [&find = variant.find](const L1Chunk& chunk, uint64_t* sum) {
      return find({reinterpret_cast<const uint64_t*>(chunk.keys), L1Lookups::kChunk}, sum);
    };
  };
  return {name, lookups_.get(), threads, answer};
}

Status L1IndexRace::Race(const std::vector<std::string>& names, const std::vector<L1Ratio>& ratios,
                         ClaimRounds* rates) const {
  if (Interrupted()) return Status::Ok();
  std::vector<L1Contender> contenders;
  for (const std::string& name : names) {
    const auto variant = std::find_if(variants_.begin(), variants_.end(),
                                      [&](const Variant& each) { return each.name == name; });
    ENGINE_RACE_ASSERT(variant != variants_.end());
    contenders.push_back(ContenderOf(*variant, name, 1));
  }
  return RunL1Rounds(config_.rounds, contenders, ratios, rates);
}

Experiment L1IndexRace::Table(const ClaimRounds& rates) const {
  Experiment table;
  table.number = 5;
  table.name = "the engine's index";
  table.question = "What does each step of the engine's own lookups gain?";
  table.unit = "a lookup of a key of 8 bytes: its slot";
  table.medium = "memory";
  table.notes = {std::to_string(key_count_) + " keys in " + std::to_string(options_.bucket_count) +
                     " buckets, " + std::to_string(blocks_->block_count()) +
                     " blocks, nothing written beside",
                 "batched: " + std::to_string(FlatIndex::kBatchKeys) + " keys at a time"};
  table.plot = {"steps", "step", {"threads"}, {"over_baseline"}};
  for (const Variant& variant : variants_) {
    for (const uint32_t threads : config_.thread_counts) {
      table.rows.push_back(L1StepRow(rates, variant.name, kCachedBlocks, threads));
    }
  }
  return table;
}

}  // namespace engine_race::harness
