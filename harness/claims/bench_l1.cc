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
#include "harness/experiments/l1/rounds.h"
#include "harness/experiments/l1/shards.h"
#include "harness/experiments/l1/steps.h"
#include "harness/experiments/l1/tables.h"
#include "harness/opponents/rocks.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

using engine_race::Status;
using lab::BestNodeSearch;
using lab::NodeSearchName;

constexpr char kEncoding[] = "encoding_simd_gain";
constexpr char kSwizzle[] = "swizzle_gain";
constexpr char kTotal[] = "total_gain";
constexpr char kSimd[] = "simd_vs_scalar";
constexpr char kBaselineVsRocks[] = "baseline_vs_rocksdb";
constexpr char kVsRocks[] = "vs_rocksdb_readrandom";
constexpr char kEpoch[] = "epoch_vs_refcount";
constexpr char kBatched[] = "batched_vs_single";
constexpr char kSeek[] = "seek_gain";

// Ratios between tables are of throughput.
constexpr ClaimTarget kTargets[] = {
    {kEncoding, ">= 1.3", "the tree's best search over the baseline, both through the cache"},
    {kSwizzle, ">= 3.0", "the same with everything by pointer over the baseline: cumulative"},
    {kTotal, ">= 3.2",
     "all steps that single lookups gain by over the baseline; shared_nothing_gain is beside it"},
    {kSimd, "",
     "the fastest search in wide registers over the fastest scalar one, by pointer, one thread"},
    {kBaselineVsRocks, ">= 1.0", "the baseline over RocksDB's LRU cache, one thread"},
    {kVsRocks, ">= 7", "everything by pointer over RocksDB's LRU cache, one thread"},
    {kEpoch, ">= 1.3", "epochs over counts in the frames, all threads on hot keys of one table"},
    {kBatched, ">= 3",
     "batches over single lookups of the same keys in order, by pointer, one thread"},
    {kSeek, ">= 1.0",
     "a seek and its steps in the tree over the baseline, both through the cache, one thread"},
    {kSharedNothing, "",
     "workers that ask each other over as many threads that share, everything by pointer, the "
     "hand-over included"},
    {kZipfGain, ">= 5", "zipfian reads of the engine with frames for values over none, on disk"},
    {kHitRate, ">= 0.9", "the rate of hits after a scan of everything over the one before"},
    {kUniformCost, "<= 0.08",
     "CPU of a uniform read with frames over one without, less 1, on tmpfs"},
    {kHotRead, "<= 1.6", "a read of what is in frames over a copy of as many bytes"}};

struct L1BenchConfig {
  uint64_t record_count = 20000000;
  uint32_t table_count = 32;
  TableShape shape;
  // One thread for each CPU suits the machine best.
  uint32_t thread_count = engine_race::AvailableCpuCount();
  L1RoundsShape rounds;
  uint64_t lookup_count = uint64_t{1} << 22;  // drawn beforehand
  uint64_t hot_key_count = 4000;
  uint32_t hot_thread_count = 2;
  uint32_t batch_size = 64;
  uint32_t next_count = 10;  // after a seek
  // The shape of the engine's own reads. Directory, rounds and seed are taken from above.
  L1EngineShape engine;
  // The opponent; empty where there is none, and then its claims are not measured.
  MakeRocksPointsFn make_rocks = RocksPointsMaker();

  L1Records records() const {
    return {shape, table_count, record_count / table_count, rounds.seed};
  }
};

class L1Bench final : public Bench {
 public:
  L1Bench()
      : Bench("l1", "lookups in tables in memory, step by step and beside RocksDB", kTargets) {}

  std::vector<Setting> Settings() override {
    L1BenchConfig& c = config_;
    L1EngineShape& e = c.engine;
    return {{"records", &c.record_count, 20000, "--records", "in all tables"},
            {"tables", &c.table_count, kSame, "--tables"},
            {"key_bytes", &c.shape.key_bytes, kSame, "--key-bytes"},
            {"payload_bytes", &c.shape.payload_bytes, kSame, "--payload-bytes"},
            {"threads", &c.thread_count, kSame, "--threads", "of the cumulative claims"},
            {"rounds", &c.rounds.round_count, 1, "--rounds"},
            {"seconds", &c.rounds.seconds, 0.002, "--seconds", "of each run"},
            {"", &c.rounds.warming_seconds, 0.002},
            {"", &c.rounds.seed, kSame, "--seed", "", true},
            {"lookups_drawn", &c.lookup_count, 4096},
            {"hot_keys", &c.hot_key_count},
            {"hot_threads", &c.hot_thread_count},
            {"batch", &c.batch_size},
            {"steps_after_a_seek", &c.next_count},
            {"", &e.memory_budget_bytes, engine_race::kMinMemoryBudgetBytes},
            {"", &e.record_count, 16384},
            {"", &e.uniform_record_count, 65536},
            {"", &e.hot_record_count, 2000},
            {"", &e.thread_count, 4},
            {"", &e.keys_per_call, 100},
            {"", &e.warming_read_count, 20000},
            {"", &e.probe_read_count, 10000},
            {"", &e.seconds, 0.02}};
  }

 private:
  std::vector<BenchPart> Parts() override;
  std::string WhyNot() override;
  uint64_t TmpfsBytes() override { return L1EngineTmpfsBytes(EngineShape()); }
  void AddTo(nlohmann::json* json) override;

  // Opens the records' files once, and closes what a part has opened.
  Status Measure(Status (L1Bench::*part)());
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
  L1EngineShape EngineShape();

  L1BenchConfig config_;
  std::unique_ptr<L1Files> files_;
  std::unique_ptr<L1Lookups> uniform_;
  // Opened by the running part, closed at its end.
  std::map<std::string, std::unique_ptr<L1Tables>> tables_;
  std::vector<std::unique_ptr<RocksPoints>> rocks_;
  nlohmann::json rocks_json_;
  nlohmann::json shards_json_;
  nlohmann::json engine_json_;
};

L1EngineShape L1Bench::EngineShape() {
  L1EngineShape shape = config_.engine;
  shape.round_count = config_.rounds.round_count;
  shape.seed = config_.rounds.seed;
  return shape;
}

std::string L1Bench::WhyNot() {
  const TableShape& shape = config_.shape;
  if (!shape.valid()) return "keys have 8, 16 or 32 bytes, payloads 8 to 256";
  if (config_.record_count < config_.table_count) return "fewer --records than --tables";
  // The ladder of steps. A set of tables, or a database, takes half as much again as its records.
  constexpr double kMemoryOverhead = 1.5;
  const double copies = static_cast<double>(L1Ladder().size());
  const double record_bytes = static_cast<double>(config_.records().byte_count());
  const uint64_t lookup_bytes = config_.lookup_count * 2 * shape.key_bytes;
  const uint64_t needed_bytes =
      std::max(static_cast<uint64_t>(copies * kMemoryOverhead * record_bytes) + lookup_bytes,
               L1EngineMemoryBytes(EngineShape()));
  if (needed_bytes <= FreeMemoryBytes()) return {};
  return std::to_string(needed_bytes) + " bytes of memory needed, " +
         std::to_string(FreeMemoryBytes()) + " free";
}

std::vector<BenchPart> L1Bench::Parts() {
  // Three encodings, and RocksDB while it is compacted.
  const uint64_t bytes = 5 * L1Files::BytesOf(config_.records());
  const auto part = [this](Status (L1Bench::*measure)()) {
    return [this, measure] { return Measure(measure); };
  };
  return {{"steps", {kEncoding, kSwizzle, kTotal}, part(&L1Bench::Steps), bytes},
          {"searches", {kSimd}, part(&L1Bench::Searches), bytes},
          {"seeks", {kSeek}, part(&L1Bench::Seeks), bytes},
          {"protections", {kEpoch}, part(&L1Bench::Protections), bytes},
          {"batches", {kBatched}, part(&L1Bench::Batches), bytes},
          {"shared-nothing", {kSharedNothing}, part(&L1Bench::SharedNothing), bytes},
          {"rocksdb",
           {kBaselineVsRocks, kVsRocks},
           part(&L1Bench::Rocks),
           bytes,
           false,
           config_.make_rocks ? "" : kNoRocks},
          {"engine",
           {kZipfGain, kHitRate, kUniformCost, kHotRead},
           part(&L1Bench::Engine),
           bytes + L1EngineDiskBytes(EngineShape()),
           true}};
}

Status L1Bench::Measure(Status (L1Bench::*part)()) {
  if (files_ == nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(dir(), config_.records(), &files_));
  }
  const Status status = (this->*part)();
  tables_.clear();
  rocks_.clear();
  return status;
}

const L1Lookups& L1Bench::Uniform() {
  if (uniform_ == nullptr) {
    uniform_ = std::make_unique<L1Lookups>(config_.records(), L1Draw{config_.lookup_count});
  }
  return *uniform_;
}

Status L1Bench::Open(const char* step, L1Tables** tables) {
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

Status L1Bench::AddGets(const char* step, const L1Lookups& lookups, uint32_t thread_count,
                        const std::string& suffix, std::vector<L1Contender>* contenders) {
  L1Tables* tables = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(Open(step, &tables));
  if (tables == nullptr) return Status::Ok();
  contenders->push_back({step + suffix, &lookups, thread_count, tables->Gets()});
  return Status::Ok();
}

Status L1Bench::Steps() {
  std::set<uint32_t> thread_counts = {1, config_.thread_count};
  std::vector<L1Contender> contenders;
  std::vector<L1Ratio> ratios;
  for (const uint32_t threads : thread_counts) {
    const std::string suffix =
        ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    for (const char* step : L1Ladder()) {
      ENGINE_RACE_RETURN_IF_ERROR(AddGets(step, Uniform(), threads, suffix, &contenders));
    }
    const bool is_claim = threads == config_.thread_count;
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

Status L1Bench::Searches() {
  std::vector<L1Contender> contenders;
  for (const bool by_pointer : {false, true}) {
    for (const char* step : L1Searches(by_pointer)) {
      ENGINE_RACE_RETURN_IF_ERROR(AddGets(step, Uniform(), 1, "", &contenders));
    }
  }
  std::vector<L1Ratio> ratios;
  for (const bool by_pointer : {false, true}) {
    const auto searches = L1Searches(by_pointer);
    const auto scalar = searches.begin() + kScalarSearches;
    ratios.push_back({by_pointer ? kSimd : std::string(kSimd) + ", through the cache",
                      {scalar, searches.end()},
                      {searches.begin(), scalar}});
  }
  return Compare(contenders, ratios);
}

Status L1Bench::Seeks() {
  // Fewer lookups, because each goes on to the next records.
  const L1Lookups seeks(config_.records(), {config_.lookup_count / 4, 1, 0, config_.next_count});
  std::vector<L1Contender> contenders;
  for (const char* step : {kBaselineStep, kEncodingStep, kSwizzledStep}) {
    L1Tables* tables = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(Open(step, &tables));
    contenders.push_back(
        {std::string("seek, ") + step, &seeks, 1, tables->Seeks(config_.next_count)});
  }
  return Compare(contenders,
                 {{kSeek, {contenders[1].name}, {contenders[0].name}},
                  {"seek_gain, by pointer", {contenders[2].name}, {contenders[0].name}}});
}

Status L1Bench::Protections() {
  const L1Lookups hot(config_.records(), {config_.lookup_count / 4, 1, config_.hot_key_count});
  const std::string suffixes[] = {", hot keys", ", uniform keys"};
  const L1Lookups* const lookups[] = {&hot, &Uniform()};
  std::vector<L1Contender> contenders;
  std::vector<L1Ratio> ratios;
  for (const int i : {0, 1}) {
    for (const char* step : {kSwizzledStep, kCountedStep}) {
      ENGINE_RACE_RETURN_IF_ERROR(
          AddGets(step, *lookups[i], config_.hot_thread_count, suffixes[i], &contenders));
    }
    ratios.push_back({i == 0 ? kEpoch : "epoch_vs_refcount, uniform keys",
                      {kSwizzledStep + suffixes[i]},
                      {kCountedStep + suffixes[i]}});
  }
  return Compare(contenders, ratios);
}

Status L1Bench::Batches() {
  const L1Lookups groups(config_.records(), {config_.lookup_count, config_.batch_size});
  std::vector<L1Contender> contenders;
  L1Tables* tables = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(Open(kSwizzledStep, &tables));
  contenders.push_back({"batched", &groups, 1, tables->MultiGets(config_.batch_size)});
  contenders.push_back({"single, the batches' keys", &groups, 1, tables->Gets()});
  contenders.push_back({"single, keys of any table", &Uniform(), 1, tables->Gets()});
  return Compare(contenders, {{kBatched, {contenders[0].name}, {contenders[1].name}},
                              {"batched_vs_single, single keys of any table",
                               {contenders[0].name},
                               {contenders[2].name}}});
}

Status L1Bench::SharedNothing() {
  L1Shards shards({config_.rounds, config_.thread_count}, files_.get(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(shards.Prepare());
  ENGINE_RACE_RETURN_IF_ERROR(shards.Compare(Uniform()));
  shards_json_ = shards.Describe();
  return Status::Ok();
}

Status L1Bench::AddRocks(std::vector<L1Contender>* contenders) {
  constexpr std::pair<RocksForm, const char*> kForms[] = {
      {RocksForm::kLru, "RocksDB, LRU cache"},
      {RocksForm::kHyperClock, "RocksDB, HyperClock cache"},
      {RocksForm::kPlain, "RocksDB, plain table"}};
  for (const auto& [form, name] : kForms) {
    const std::string rocks_dir = dir() + "/rocksdb-" + std::to_string(rocks_.size());
    std::unique_ptr<RocksPoints> points;
    ENGINE_RACE_RETURN_IF_ERROR(config_.make_rocks(rocks_dir, config_.records(), form, &points));
    rocks_json_[name] = points->Describe();
    contenders->push_back({name, &Uniform(), 1, points->Gets()});
    rocks_.push_back(std::move(points));
  }
  return Status::Ok();
}

Status L1Bench::Rocks() {
  std::vector<L1Contender> contenders;
  ENGINE_RACE_RETURN_IF_ERROR(AddRocks(&contenders));
  const std::string lru = contenders[0].name;
  std::vector<L1Ratio> ratios = {{"swizzled over HyperClock", {}, {contenders[1].name}},
                                 {"swizzled over plain table", {}, {contenders[2].name}}};
  const std::string suffix = " beside RocksDB";
  for (L1Ratio& ratio : ratios) ratio.above = {kSwizzledStep + suffix};
  ratios.push_back({kBaselineVsRocks, {kBaselineStep + suffix}, {lru}});
  ratios.push_back({kVsRocks, {kSwizzledStep + suffix}, {lru}});
  for (const char* step : {kBaselineStep, kSwizzledStep}) {
    ENGINE_RACE_RETURN_IF_ERROR(AddGets(step, Uniform(), 1, suffix, &contenders));
  }
  return Compare(contenders, ratios);
}

Status L1Bench::Engine() {
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
  engine_json_ = engine.about();
  return status;
}

void L1Bench::AddTo(nlohmann::json* json) {
  (*json)["config"]["threads_why"] = "of the cumulative claims: one for each CPU; beside them 1";
  (*json)["config"]["search"] = NodeSearchName(BestNodeSearch());
  (*json)["rocksdb"] = rocks_json_;
  (*json)["shards"] = shards_json_;
  (*json)["engine"] = engine_json_;
}

}  // namespace

std::unique_ptr<Bench> MakeL1Bench() { return std::make_unique<L1Bench>(); }

}  // namespace harness
