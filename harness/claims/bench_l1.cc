// The measured claims about lookups in memory: the steps from blocks in a cache to tables by
// pointer, each beside the one before it, and RocksDB. The engine's own hot values come last.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/parallel.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/experiments/l1/engine.h"
#include "harness/experiments/l1/index_race.h"
#include "harness/experiments/l1/tables.h"
#include "harness/opponents/rocks.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

using lab::BestNodeSearch;
using lab::NodeSearchName;

constexpr char kEncoding[] = "encoding_simd_gain";
constexpr char kSwizzle[] = "swizzle_gain";
constexpr char kTotal[] = "total_gain";
constexpr char kPagedVsCache[] = "paged_vs_cache";
constexpr char kPagedVsPointers[] = "paged_vs_pointers";
constexpr char kPagedVsFlatBatches[] = "paged_batch_vs_flat_batch";

class L1Bench final : public Bench {
 public:
  L1Bench() : Bench("l1", "lookups in tables in memory, step by step and beside RocksDB") {
    Set({"rounds", &shape_.round_count, 1, "--rounds"});
    Set({"seconds", &shape_.seconds, 0.002, "--seconds", "of each run"});
    Set({"", &shape_.warming_seconds, 0.002});
    Set({"", &shape_.seed, kSame, "--seed", "", true});
    L1EngineShape& e = engine_;
    const std::pair<uint64_t*, double> counts[] = {{&e.memory_budget_bytes, kMinMemoryBudgetBytes},
                                                   {&e.record_count, 16384},
                                                   {&e.uniform_record_count, 65536},
                                                   {&e.hot_record_count, 2000},
                                                   {&e.epoch_record_count, 2000},
                                                   {&e.warming_read_count, 20000},
                                                   {&e.probe_read_count, 10000}};
    for (const auto& [value, smoke] : counts) Set({"", value, smoke});
    Set({"", &e.thread_count, 4});
    Set({"", &e.keys_per_call, 100});
    Set({"", &e.seconds, 0.02});
  }

 private:
  std::vector<BenchPart> Parts() override {
    // Three encodings, and RocksDB while it is compacted.
    const uint64_t bytes = 5 * L1Files::BytesOf(Records());
    const auto part = [this](Status (L1Bench::*measure)()) {
      return [this, measure] { return Measure(measure); };
    };
    // Ratios between tables are of throughput.
    return {
        {"steps",
         {{kEncoding, ">= 1.3", "the tree's best search over the baseline, both through the cache"},
          {kSwizzle, ">= 3.0", "the same with everything by pointer over the baseline: cumulative"},
          {kTotal, ">= 3.2",
           "all steps that single lookups gain by over the baseline; shared_nothing_gain is beside "
           "it"}},
         part(&L1Bench::Steps),
         bytes},
        {"searches",
         {{"simd_vs_scalar", "",
           "the fastest search in wide registers over the fastest scalar one, by pointer, one "
           "thread"}},
         part(&L1Bench::Searches),
         bytes},
        {"seeks",
         {{"seek_gain", ">= 1.0",
           "a seek and its steps in the tree over the baseline, both through the cache, one "
           "thread"}},
         part(&L1Bench::Seeks),
         bytes},
        {"protections",
         {{"epoch_vs_refcount", ">= 1.3",
           "epochs over counts in the frames, all threads on hot keys of one table"}},
         part(&L1Bench::Protections),
         bytes},
        {"batches",
         {{"batched_vs_single", ">= 3",
           "batches over single lookups of the same keys in order, by pointer, one thread"}},
         part(&L1Bench::Batches),
         bytes},
        {"shared-nothing",
         {{kSharedNothing, "",
           "workers that ask each other over as many threads that share, everything by pointer, "
           "the "
           "hand-over included"}},
         part(&L1Bench::SharedNothing),
         bytes},
        {"index",
         {{kPagedVsCache, ">= 3.0",
           "the engine's paged lookups, all blocks in frames, over the same blocks through the "
           "cache, one thread"},
          {kPagedVsPointers, ">= 0.85", "the same over the same blocks by plain pointer"},
          {kPagedVsFlatBatches, ">= 0.85",
           "batches of lookups in the paged index over those in a flat one"}},
         part(&L1Bench::Index),
         bytes + record_count_ * kL1IndexDiskBytesPerKey},
        {"rocksdb",
         {{"baseline_vs_rocksdb", ">= 1.0", "the baseline over RocksDB's LRU cache, one thread"},
          {"vs_rocksdb_readrandom", ">= 7",
           "everything by pointer over RocksDB's LRU cache, one thread"}},
         part(&L1Bench::Rocks),
         {bytes, false, make_rocks_ ? "" : kNoRocks}},
        {"engine",
         {{kZipfGain, ">= 5",
           "zipfian reads of the engine with frames for values over none, on disk"},
          {kHitRate, ">= 0.9", "the rate of hits after a scan of everything over the one before"},
          {kUniformCost, "<= 0.08",
           "CPU of a uniform read with frames over one without, less 1, on tmpfs"},
          {kHotRead, "<= 1.6", "a read of what is in frames over a copy of as many bytes"},
          {kSecondEpoch, ">= 8",
           "the second MultiRead of all records after an opening over the first, all in memory"}},
         part(&L1Bench::Engine),
         {bytes + L1EngineDiskBytes(EngineShape()), true}}};
  }

  std::string WhyNot() override {
    if (!Shape().valid()) return "keys have 8, 16 or 32 bytes, payloads 8 to 256";
    if (record_count_ < table_count_) return "fewer --records than --tables";
    // The ladder of steps. A set of tables, or a database, takes half as much again as its records.
    constexpr double kMemoryOverhead = 1.5;
    const double copies = static_cast<double>(L1Steps(L1Use::kLadder).size());
    const double record_bytes = static_cast<double>(Records().byte_count());
    const uint64_t lookup_bytes = lookup_count_ * 2 * key_bytes_;
    const uint64_t needed_bytes =
        std::max(static_cast<uint64_t>(copies * kMemoryOverhead * record_bytes) + lookup_bytes,
                 L1EngineMemoryBytes(EngineShape()));
    if (needed_bytes <= FreeMemoryBytes()) return {};
    return std::to_string(needed_bytes) + " bytes of memory needed, " +
           std::to_string(FreeMemoryBytes()) + " free";
  }

  uint64_t TmpfsBytes() override { return L1EngineTmpfsBytes(EngineShape()); }

  // Opens the records' files once, and closes what a part has opened.
  Status Measure(Status (L1Bench::*part)()) {
    more_json_["config"]["threads_why"] =
        "of the cumulative claims: one for each CPU; beside them 1";
    more_json_["config"]["search"] = NodeSearchName(BestNodeSearch());
    if (files_ == nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(lasting_dir(), Records(), &files_));
    }
    const Status status = (this->*part)();
    tables_.clear();
    rocks_.clear();
    return status;
  }

  Status Steps() {
    std::set<uint32_t> thread_counts = {1, thread_count_};
    std::vector<L1Contender> contenders;
    std::vector<L1Ratio> ratios;
    for (const uint32_t threads : thread_counts) {
      const std::string suffix =
          ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
      for (const L1Step& step : L1Steps(L1Use::kLadder)) {
        ENGINE_RACE_RETURN_IF_ERROR(AddGets(step.name, Uniform(), threads, suffix, &contenders));
      }
      const bool is_claim = threads == thread_count_;
      for (const auto& [claim, step] :
           {std::pair(kEncoding, kEncodingStep), std::pair(kSwizzle, kSwizzledStep)}) {
        ratios.push_back(
            {is_claim ? claim : claim + suffix, {step + suffix}, {kBaselineStep + suffix}});
      }
    }
    ENGINE_RACE_RETURN_IF_ERROR(Compare(contenders, ratios));
    rounds_.Settle(kTotal, rounds_.Median(kSwizzle));
    return Status::Ok();
  }

  // The searches of a tree, through the cache and by pointer.
  Status Searches() {
    std::vector<L1Contender> contenders;
    std::vector<L1Ratio> ratios = {{"simd_vs_scalar, through the cache", {}, {}},
                                   {"simd_vs_scalar", {}, {}}};
    for (const L1Step& step : L1Steps()) {
      if (!step.search) continue;
      ENGINE_RACE_RETURN_IF_ERROR(AddGets(step.name, Uniform(), 1, "", &contenders));
      L1Ratio& ratio = ratios[step.reach == L1Reach::kNone ? 0 : 1];
      const bool is_scalar = *step.search <= lab::NodeSearch::kBranchless;
      (is_scalar ? ratio.below : ratio.above).emplace_back(step.name);
    }
    return Compare(contenders, ratios);
  }

  Status Seeks() {
    // Fewer lookups, because each goes on to the next records.
    const L1Lookups seeks(Records(), {lookup_count_ / 4, 1, 0, next_count_});
    std::vector<L1Contender> contenders;
    for (const char* step : {kBaselineStep, kEncodingStep, kSwizzledStep}) {
      L1Tables* tables = nullptr;
      ENGINE_RACE_RETURN_IF_ERROR(Open(step, &tables));
      contenders.push_back({std::string("seek, ") + step, &seeks, 1, tables->Seeks(next_count_)});
    }
    return Compare(contenders,
                   {{"seek_gain", {contenders[1].name}, {contenders[0].name}},
                    {"seek_gain, by pointer", {contenders[2].name}, {contenders[0].name}}});
  }

  Status Protections() {
    const L1Lookups hot(Records(), {lookup_count_ / 4, 1, hot_key_count_});
    const std::string suffixes[] = {", hot keys", ", uniform keys"};
    const L1Lookups* const lookups[] = {&hot, &Uniform()};
    std::vector<L1Contender> contenders;
    std::vector<L1Ratio> ratios;
    for (const int i : {0, 1}) {
      for (const char* step : {kSwizzledStep, kCountedStep}) {
        ENGINE_RACE_RETURN_IF_ERROR(
            AddGets(step, *lookups[i], hot_thread_count_, suffixes[i], &contenders));
      }
      ratios.push_back({i == 0 ? "epoch_vs_refcount" : "epoch_vs_refcount, uniform keys",
                        {kSwizzledStep + suffixes[i]},
                        {kCountedStep + suffixes[i]}});
    }
    return Compare(contenders, ratios);
  }

  Status Batches() {
    const L1Lookups groups(Records(), {lookup_count_, batch_size_});
    std::vector<L1Contender> contenders;
    L1Tables* tables = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(Open(kSwizzledStep, &tables));
    contenders.push_back({"batched", &groups, 1, tables->MultiGets(batch_size_)});
    contenders.push_back({"single, the batches' keys", &groups, 1, tables->Gets()});
    contenders.push_back({"single, keys of any table", &Uniform(), 1, tables->Gets()});
    return Compare(contenders, {{"batched_vs_single", {contenders[0].name}, {contenders[1].name}},
                                {"batched_vs_single, single keys of any table",
                                 {contenders[0].name},
                                 {contenders[2].name}}});
  }

  Status SharedNothing() {
    L1Shards shards({shape_, thread_count_}, files_.get(), &rounds_);
    ENGINE_RACE_RETURN_IF_ERROR(shards.Prepare());
    ENGINE_RACE_RETURN_IF_ERROR(shards.Compare(Uniform()));
    more_json_["shards"] = shards.Describe();
    return Status::Ok();
  }

  Status Index() {
    uniform_.reset();
    L1RaceConfig config;
    config.dir = dir();
    config.records = Records();
    config.rounds = shape_;
    config.lookup_count = lookup_count_;
    L1IndexRace race(config, record_count_);
    ENGINE_RACE_RETURN_IF_ERROR(race.Prepare());
    return race.Race({kCachedBlocks, kBlocksByPointer, kPagedIndex, kPagedBatches, kFlatBatches},
                     {{kPagedVsCache, {kPagedIndex}, {kCachedBlocks}},
                      {kPagedVsPointers, {kPagedIndex}, {kBlocksByPointer}},
                      {kPagedVsFlatBatches, {kPagedBatches}, {kFlatBatches}}},
                     &rounds_);
  }

  Status Rocks() {
    constexpr std::pair<RocksForm, const char*> kForms[] = {
        {RocksForm::kLru, "RocksDB, LRU cache"},
        {RocksForm::kHyperClock, "RocksDB, HyperClock cache"},
        {RocksForm::kPlain, "RocksDB, plain table"}};
    const std::string suffix = " beside RocksDB";
    std::vector<L1Contender> contenders;
    for (const auto& [form, name] : kForms) {
      const std::string rocks_dir = dir() + "/rocksdb-" + std::to_string(rocks_.size());
      ENGINE_RACE_RETURN_IF_ERROR(make_rocks_(rocks_dir, Records(), form, &rocks_.emplace_back()));
      more_json_["rocksdb"][name] = rocks_.back()->Describe();
      contenders.push_back({name, &Uniform(), 1, rocks_.back()->Gets()});
    }
    for (const char* step : {kBaselineStep, kSwizzledStep}) {
      ENGINE_RACE_RETURN_IF_ERROR(AddGets(step, Uniform(), 1, suffix, &contenders));
    }
    const std::vector<std::string> swizzled = {kSwizzledStep + suffix};
    return Compare(contenders,
                   {{"swizzled over HyperClock", swizzled, {kForms[1].second}},
                    {"swizzled over plain table", swizzled, {kForms[2].second}},
                    {"baseline_vs_rocksdb", {kBaselineStep + suffix}, {kForms[0].second}},
                    {"vs_rocksdb_readrandom", swizzled, {kForms[0].second}}});
  }

  Status Engine() {
    uniform_.reset();
    L1EngineShape shape = EngineShape();
    shape.dir = dir();
    shape.tmpfs_dir = tmpfs_dir();
    L1Engine engine(shape, &rounds_);
    Status status;
    if (Wants(kZipfGain) || Wants(kHitRate)) status = engine.CompareZipf();
    if (status.ok() && Wants(kHitRate)) status = engine.ScanOnce();
    if (status.ok() && Wants(kUniformCost)) status = engine.CompareUniform();
    if (status.ok() && Wants(kHotRead)) status = engine.CompareHot();
    if (status.ok() && Wants(kSecondEpoch)) status = engine.CompareEpochs();
    more_json_["engine"] = engine.about();
    return status;
  }

  // Opens the tables of a step; null where this CPU lacks the step's instructions.
  Status Open(const char* step, L1Tables** tables) {
    *tables = nullptr;
    const L1Step& settings = L1StepNamed(step);
    if (!settings.available()) return Status::Ok();
    std::unique_ptr<L1Tables>& opened = tables_[step];
    if (opened == nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(files_->Build(settings.encoding));
      ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(*files_, settings, &opened));
    }
    *tables = opened.get();
    return Status::Ok();
  }

  Status AddGets(const char* step, const L1Lookups& lookups, uint32_t thread_count,
                 const std::string& suffix, std::vector<L1Contender>* contenders) {
    L1Tables* tables = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(Open(step, &tables));
    if (tables == nullptr) return Status::Ok();
    contenders->push_back({step + suffix, &lookups, thread_count, tables->Gets()});
    return Status::Ok();
  }

  // The uniform draw that several parts share.
  const L1Lookups& Uniform() {
    if (uniform_ == nullptr) {
      uniform_ = std::make_unique<L1Lookups>(Records(), L1Draw{lookup_count_});
    }
    return *uniform_;
  }
  Status Compare(const std::vector<L1Contender>& contenders, const std::vector<L1Ratio>& ratios) {
    return RunL1Rounds(shape_, contenders, ratios, &rounds_);
  }
  TableShape Shape() const { return {key_bytes_, payload_bytes_}; }
  L1Records Records() const {
    return {Shape(), table_count_, record_count_ / table_count_, shape_.seed};
  }

  L1EngineShape EngineShape() const {
    L1EngineShape shape = engine_;
    shape.round_count = shape_.round_count;
    shape.seed = shape_.seed;
    return shape;
  }

  Count record_count_{this, "records", 20000000, 20000, "--records", "in all tables"};
  Count32 table_count_{this, "tables", 32, kSame, "--tables"};
  Count32 key_bytes_{this, "key_bytes", TableShape().key_bytes, kSame, "--key-bytes"};
  Count32 payload_bytes_{this, "payload_bytes", TableShape().payload_bytes, kSame,
                         "--payload-bytes"};
  Count32 thread_count_{this,  "threads",   AvailableCpuCount(),
                        kSame, "--threads", "of the cumulative claims"};
  Count lookup_count_{this, "lookups_drawn", uint64_t{1} << 22, 4096};  // drawn beforehand
  Count hot_key_count_{this, "hot_keys", 4000};
  Count32 hot_thread_count_{this, "hot_threads", 2};
  Count32 batch_size_{this, "batch", 64};
  Count32 next_count_{this, "steps_after_a_seek", 10};
  L1RoundsShape shape_;
  // The shape of the engine's own reads. Directory, rounds and seed are taken from above.
  L1EngineShape engine_;
  // The opponent; empty where there is none, and then its claims are not measured.
  const MakeRocksPointsFn make_rocks_ = RocksPointsMaker();
  std::unique_ptr<L1Files> files_;
  std::unique_ptr<L1Lookups> uniform_;
  // Opened by the running part, closed at its end.
  std::map<std::string, std::unique_ptr<L1Tables>> tables_;
  std::vector<std::unique_ptr<RocksPoints>> rocks_;
};

}  // namespace

std::unique_ptr<Bench> MakeL1Bench() { return std::make_unique<L1Bench>(); }

}  // namespace engine_race::harness
