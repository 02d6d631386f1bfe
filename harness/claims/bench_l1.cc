#include "harness/claims/bench_l1.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "harness/system/child_process.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

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
// A figure beside the claims.
constexpr char kEpochUniform[] = "epoch_vs_refcount, uniform keys";
constexpr char kBatchedScattered[] = "batched_vs_single, single keys of any table";

constexpr ClaimTarget kTargets[] = {{kEncoding, ">= 1.3"},     {kSwizzle, ">= 3.0"},
                                    {kTotal, ">= 3.2"},        {kSimd, ""},
                                    {kSharedNothing, ""},      {kBaselineVsRocks, ">= 1.0"},
                                    {kVsRocks, ">= 7"},        {kEpoch, ">= 1.3"},
                                    {kBatched, ">= 3"},        {kSeek, ">= 1.0"},
                                    {kZipfGain, ">= 5"},       {kHitRate, ">= 0.9"},
                                    {kUniformCost, "<= 0.08"}, {kHotRead, "<= 1.6"}};

// The meanings of the names in the JSON. Ratios between tables are of throughput.
constexpr std::pair<const char*, const char*> kWhat[] = {
    {kEncoding, "the tree with its best search over the baseline, both through the cache"},
    {kSwizzle, "the same with everything by pointer over the baseline: cumulative"},
    {kTotal,
     "all steps that single lookups gain by over the baseline: swizzle_gain, without sharing "
     "nothing, which hands over batches and is shown beside both"},
    {kSimd,
     "the fastest search of a tree in wide registers over the fastest scalar one of the "
     "same layout, everything by pointer, one thread"},
    {kBaselineVsRocks, "the baseline over RocksDB's LRU cache, one thread"},
    {kVsRocks, "everything by pointer over RocksDB's LRU cache, one thread"},
    {kEpoch, "epochs over counts in the frames, all threads on the same hot keys of one table"},
    {kBatched,
     "batches over single lookups of the same keys in the same order, everything by "
     "pointer, one thread"},
    {kSeek,
     "a seek and its steps in the tree over the same in the baseline, both through the "
     "cache, one thread"},
    {kSharedNothing,
     "workers that ask each other over as many threads that share, everything by "
     "pointer, the hand-over included"},
    {kZipfGain, "zipfian reads of the engine with frames for values over none, on disk"},
    {kHitRate, "the rate of hits after a scan of everything over the one before"},
    {kUniformCost, "CPU of a uniform read with frames over one without, less 1, on tmpfs"},
    {kHotRead, "a read of what is in frames over a copy of as many bytes"}};

std::string Threads(uint32_t count) {
  return count == 1 ? ", 1 thread" : ", " + std::to_string(count) + " threads";
}

// The memory of a set of tables, or of a database, over that of its records.
constexpr double kMemoryOverhead = 1.5;

L1EngineShape EngineShape(const L1BenchConfig& config) {
  L1EngineShape shape = config.engine;
  shape.dir = config.dir;
  shape.tmpfs_dir = config.tmpfs_dir;
  shape.round_count = config.rounds.round_count;
  shape.seed = config.rounds.seed;
  return shape;
}

}  // namespace

std::vector<std::string> L1ClaimNames() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

uint64_t L1BenchMemoryBytes(const L1BenchConfig& config) {
  // The ladder of steps.
  const double copies = static_cast<double>(L1Ladder().size());
  const double record_bytes = static_cast<double>(config.records().byte_count());
  const uint64_t lookup_bytes = config.lookup_count * 2 * config.shape.key_bytes;
  return std::max(static_cast<uint64_t>(copies * kMemoryOverhead * record_bytes) + lookup_bytes,
                  L1EngineMemoryBytes(EngineShape(config)));
}

uint64_t L1BenchDiskBytes(const L1BenchConfig& config) {
  // Three encodings, and RocksDB while it is compacted.
  return 5 * L1Files::BytesOf(config.records()) + L1EngineDiskBytes(EngineShape(config));
}

uint64_t L1BenchTmpfsBytes(const L1BenchConfig& config) {
  return L1EngineTmpfsBytes(EngineShape(config));
}

BenchL1::BenchL1(const L1BenchConfig& config) : config_(config), rounds_(kTargets) {}

bool BenchL1::MustStop() const { return !errors_.empty() || Interrupted(); }

bool BenchL1::WantsAny(std::initializer_list<const char*> claims) const {
  return std::any_of(claims.begin(), claims.end(), [&](const char* claim) { return Wants(claim); });
}

bool BenchL1::Run(const std::function<void()>& after_part) {
  using Part = Status (BenchL1::*)();
  const std::tuple<const char*, bool, Part> parts[] = {
      {"steps", WantsAny({kEncoding, kSwizzle, kTotal}), &BenchL1::Steps},
      {"searches", Wants(kSimd), &BenchL1::Searches},
      {"seeks", Wants(kSeek), &BenchL1::Seeks},
      {"protections", Wants(kEpoch), &BenchL1::Protections},
      {"batches", Wants(kBatched), &BenchL1::Batches},
      {"shared nothing", Wants(kSharedNothing), &BenchL1::SharedNothing},
      {"RocksDB", WantsAny({kBaselineVsRocks, kVsRocks}), &BenchL1::Rocks},
      {"engine", WantsAny({kZipfGain, kHitRate, kUniformCost, kHotRead}), &BenchL1::Engine}};
  const Status opened = L1Files::Open(config_.dir, config_.records(), &files_);
  if (!opened.ok()) errors_.push_back(opened.ToString());
  for (const auto& [name, is_wanted, part] : parts) {
    if (!is_wanted || MustStop()) continue;
    const Status status = (this->*part)();
    if (!status.ok()) errors_.push_back(std::string(name) + ": " + status.ToString());
    tables_.clear();
    rocks_.clear();
    after_part();
  }
  if (Interrupted()) errors_.emplace_back("interrupted");
  for (const std::string& name : config_.wanted) {
    if (!config_.is_smoke && !rounds_.Claims().contains(name)) {
      errors_.push_back("not measured: " + name);
    }
  }
  return errors_.empty();
}

const L1Lookups& BenchL1::Uniform() {
  if (uniform_ == nullptr) {
    uniform_ = std::make_unique<L1Lookups>(config_.records(), L1Draw{config_.lookup_count});
  }
  return *uniform_;
}

engine_race::Status BenchL1::Open(const char* step, L1Tables** tables) {
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

engine_race::Status BenchL1::AddGets(const char* step, const L1Lookups& lookups,
                                     uint32_t thread_count, const std::string& suffix,
                                     std::vector<L1Contender>* contenders) {
  L1Tables* tables = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(Open(step, &tables));
  if (tables == nullptr) return Status::Ok();
  contenders->push_back({step + suffix, &lookups, thread_count, tables->Gets()});
  return Status::Ok();
}

engine_race::Status BenchL1::Steps() {
  std::set<uint32_t> thread_counts = {1, config_.thread_count};
  std::vector<L1Contender> contenders;
  std::vector<L1Ratio> ratios;
  for (const uint32_t threads : thread_counts) {
    const std::string suffix = Threads(threads);
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

engine_race::Status BenchL1::Searches() {
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

engine_race::Status BenchL1::Seeks() {
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

engine_race::Status BenchL1::Protections() {
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
    ratios.push_back({i == 0 ? kEpoch : kEpochUniform,
                      {kSwizzledStep + suffixes[i]},
                      {kCountedStep + suffixes[i]}});
  }
  return Compare(contenders, ratios);
}

engine_race::Status BenchL1::Batches() {
  const L1Lookups groups(config_.records(), {config_.lookup_count, config_.batch_size});
  std::vector<L1Contender> contenders;
  L1Tables* tables = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(Open(kSwizzledStep, &tables));
  contenders.push_back({"batched", &groups, 1, tables->MultiGets(config_.batch_size)});
  contenders.push_back({"single, the batches' keys", &groups, 1, tables->Gets()});
  contenders.push_back({"single, keys of any table", &Uniform(), 1, tables->Gets()});
  return Compare(contenders, {{kBatched, {contenders[0].name}, {contenders[1].name}},
                              {kBatchedScattered, {contenders[0].name}, {contenders[2].name}}});
}

engine_race::Status BenchL1::SharedNothing() {
  L1Shards shards({config_.rounds, config_.thread_count}, files_.get(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(shards.Prepare());
  ENGINE_RACE_RETURN_IF_ERROR(shards.Compare(Uniform()));
  shards_json_ = shards.Describe();
  return Status::Ok();
}

engine_race::Status BenchL1::AddRocks(std::vector<L1Contender>* contenders) {
  constexpr std::pair<RocksForm, const char*> kForms[] = {
      {RocksForm::kLru, "RocksDB, LRU cache"},
      {RocksForm::kHyperClock, "RocksDB, HyperClock cache"},
      {RocksForm::kPlain, "RocksDB, plain table"}};
  for (const auto& [form, name] : kForms) {
    const std::string dir = config_.dir + "/rocksdb-" + std::to_string(rocks_.size());
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
    std::unique_ptr<RocksPoints> points;
    ENGINE_RACE_RETURN_IF_ERROR(config_.make_rocks(dir, config_.records(), form, &points));
    rocks_json_[name] = points->Describe();
    contenders->push_back({name, &Uniform(), 1, points->Gets()});
    rocks_.push_back(std::move(points));
  }
  return Status::Ok();
}

engine_race::Status BenchL1::Rocks() {
  if (!config_.make_rocks) {
    std::fprintf(stderr, "%s: built without RocksDB; scripts/setup.sh rocksdb installs it\n",
                 kVsRocks);
    return Status::Ok();
  }
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

engine_race::Status BenchL1::Engine() {
  uniform_.reset();
  L1Engine engine(EngineShape(config_), &rounds_);
  Status status;
  if (WantsAny({kZipfGain, kHitRate})) status = engine.CompareZipf();
  if (status.ok() && Wants(kHitRate)) status = engine.ScanOnce();
  if (status.ok() && Wants(kUniformCost)) status = engine.CompareUniform();
  if (status.ok() && Wants(kHotRead)) status = engine.CompareHot();
  engine_json_ = engine.about();
  return status;
}

nlohmann::json BenchL1::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["what"] = nlohmann::json::object();
  for (const auto& [name, what] : kWhat) json["what"][name] = what;
  json["config"] = {{"records", config_.record_count},
                    {"tables", config_.table_count},
                    {"key_bytes", config_.shape.key_bytes},
                    {"payload_bytes", config_.shape.payload_bytes},
                    {"threads", config_.thread_count},
                    {"threads_why", "of the cumulative claims: one for each CPU; beside them 1"},
                    {"rounds", config_.rounds.round_count},
                    {"seconds", config_.rounds.seconds},
                    {"lookups_drawn", config_.lookup_count},
                    {"hot_keys", config_.hot_key_count},
                    {"hot_threads", config_.hot_thread_count},
                    {"batch", config_.batch_size},
                    {"steps_after_a_seek", config_.next_count},
                    {"search", NodeSearchName(BestNodeSearch())},
                    {"smoke", config_.is_smoke}};
  json["rocksdb"] = rocks_json_;
  json["shards"] = shards_json_;
  json["engine"] = engine_json_;
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
