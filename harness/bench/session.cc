#include "harness/bench/session.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "harness/bench/report.h"
#include "harness/measure/table.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

Status Print(const std::string& text) {
  return PrintAll(text) ? Status::Ok() : Status::IOError("cannot print to standard output");
}

// Whether a step divides its writes over the threads. In db_bench each thread makes all of them.
bool DividesWrites(const std::vector<std::string>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const std::string& step) {
    const BenchTraits* const traits = FindBenchmark(step);
    return traits != nullptr && traits->divides_writes && !traits->is_ycsb;
  });
}

}  // namespace

std::vector<std::string> BenchStepNames() {
  std::vector<std::string> names = BenchmarkNames();
  names.insert(names.end(), {"stats", "sync", "compact"});
  return names;
}

void LiveRecords::Clear() {
  live_.clear();
  count_ = 0;
  ycsb_count_ = 0;
  is_known_ = true;
}

void LiveRecords::Note(const BenchConfig& config, const BenchResult& result) {
  ycsb_count_ = std::max(ycsb_count_, result.ycsb_record_count);
  if (config.num > kMostTracked) {
    is_known_ = is_known_ && result.written_bytes == 0;
    return;
  }
  ReplayWrites(config, result, [&](uint64_t number, bool deleted) {
    if (live_.empty()) live_.resize(config.num);
    if (live_[number] != deleted) return;
    live_[number] = !deleted;
    count_ += deleted ? -1 : 1;
  });
}

Status BenchSession::Run() {
  ENGINE_RACE_RETURN_IF_ERROR(Prepare());
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*syncs=*/false));
  store_is_empty_ = !plan_.use_existing_db;
  Status status = PrintHead();
  if (status.ok() && plan_.measures_floor) {
    constexpr uint64_t kMostFloorBytes = uint64_t{1} << 30;
    const uint64_t bytes = std::min(plan_.config.num * plan_.config.value_bytes, kMostFloorBytes);
    status = MeasureFloor(dir_.path(), bytes, &floor_);
  }
  for (const std::string& step : plan_.steps) {
    if (status.ok()) status = RunStep(step);
  }
  const Status closed = Close();
  return status.ok() ? closed : status;
}

Status BenchSession::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(plan_.use_existing_db ? dir_.Adopt(plan_.db, plan_.options.paths)
                                                    : dir_.Prepare(plan_.db, plan_.options.paths));
  if (plan_.report_interval_seconds > 0 &&
      !report_file_.Open(plan_.report_file, plan_.report_interval_seconds)) {
    return Status::InvalidArgument("cannot write " + plan_.report_file);
  }
  machine_ = MachineJson(dir_.path());
  plan_.options.create_if_missing = !plan_.use_existing_db;
  if (plan_.use_existing_db) return Status::Ok();
  const Status emptied = dir_.Empty();
  return emptied.ok() ? emptied : Status::InvalidArgument(emptied.message());
}

Status BenchSession::Open(bool syncs) {
  Options engine_options = plan_.options;
  // As in db_bench, writers that wait at the same time share a flush.
  if (syncs && engine_options.sync_mode == SyncMode::kNone) {
    engine_options.sync_mode = SyncMode::kGroup;
  }
  kind_ = EngineStoreKind(engine_options);
  KvOptions options;
  options.dir = dir_.path();
  options.thread_count = plan_.config.thread_count;
  options.value_bytes = plan_.config.value_bytes;
  ENGINE_RACE_RETURN_IF_ERROR(kind_.open(options, &store_));
  store_syncs_ = syncs;
  // Of the options that were asked for, not of those of one benchmark.
  if (description_.is_null()) description_ = store_->Describe();
  return Status::Ok();
}

Status BenchSession::Close() {
  if (store_ == nullptr) return Status::Ok();
  const Status status = store_->Close();
  store_.reset();
  if (!status.ok()) return status;
  return EngineBucketFill(dir_.path(), &bucket_fill_);
}

Status BenchSession::StartFresh(bool syncs) {
  if (store_is_empty_) return SwitchTo(syncs);
  ENGINE_RACE_RETURN_IF_ERROR(store_->Close());
  store_.reset();
  live_.Clear();
  ycsb_is_cut_off_ = false;
  const Status emptied = dir_.Empty();
  if (!emptied.ok()) return Status::IOError(emptied.message());
  store_is_empty_ = true;
  return Open(syncs);
}

Status BenchSession::SwitchTo(bool syncs) {
  if (syncs == store_syncs_) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(store_->Close());
  store_.reset();
  return Open(syncs);
}

Status BenchSession::RunStep(const std::string& name) {
  if (name == "stats") return Print(store_->Statistics());
  if (name == "sync") return RunCall(name, [this] { return store_->Sync(); });
  if (name == "compact") return RunCall(name, [this] { return store_->Compact(); });
  const BenchTraits& traits = *FindBenchmark(name);
  if (traits.is_fill && plan_.use_existing_db) return Print(SkippedLine(name));
  ENGINE_RACE_RETURN_IF_ERROR(traits.is_fill ? StartFresh(traits.syncs) : SwitchTo(traits.syncs));
  if (traits.is_ycsb && !traits.is_fill) ENGINE_RACE_RETURN_IF_ERROR(LoadYcsb());
  return Measure(name, /*is_implicit=*/false);
}

Status BenchSession::RunCall(const std::string& name, FunctionRef<Status()> call) {
  BenchResult result;
  result.benchmark = name;
  result.thread_count = 1;
  CostMeter meter(StoreDirs());
  meter.Start();
  const CpuTimes before = ProcessCpuTimes();
  const uint64_t begin_ns = NowNs();
  const Status status = call();
  const uint64_t ns = NowNs() - begin_ns;
  ENGINE_RACE_RETURN_IF_ERROR(status.Prefixed(name + ": "));
  result.cpu = ProcessCpuTimes() - before;
  result.operations = 1;
  result.seconds = result.thread_seconds = static_cast<double>(ns) * 1e-9;
  result.finished = true;
  RunCosts costs = meter.Stop(0);
  costs.space_amplification = SpaceAmplification();
  return Note(result, costs);
}

std::optional<double> BenchSession::SpaceAmplification() const {
  if (plan_.use_existing_db || !live_.is_known() || live_.count() == 0) return std::nullopt;
  const std::optional<uint64_t> allocated_bytes = dir_.AllocatedBytes();
  if (!allocated_bytes) return std::nullopt;
  return static_cast<double>(*allocated_bytes) /
         static_cast<double>(live_.count() * plan_.config.record_bytes());
}

std::vector<std::string> BenchSession::StoreDirs() const {
  std::vector<std::string> dirs = dir_.value_paths();
  dirs.insert(dirs.begin(), dir_.path());
  return dirs;
}

Status BenchSession::LoadYcsb() {
  if (ycsb_is_cut_off_) {
    return Status::InvalidArgument("ycsbload was ended before it had written its " +
                                   std::to_string(plan_.config.num) + " records");
  }
  bool has = false;
  ENGINE_RACE_RETURN_IF_ERROR(HasYcsbRecords(plan_.config, store_.get(), &has));
  if (has) return Status::Ok();
  if (plan_.use_existing_db) {
    return Status::InvalidArgument("the store in " + dir_.path() + " does not have the " +
                                   std::to_string(plan_.config.num) + " records of ycsbload");
  }
  return Measure("ycsbload", /*is_implicit=*/true);
}

Status BenchSession::Measure(const std::string& benchmark, bool is_implicit) {
  const BenchTraits& traits = *FindBenchmark(benchmark);
  BenchConfig config = plan_.config;
  config.benchmark = benchmark;
  // The flags are about the workload, which needs all records.
  if (is_implicit) config.rate = config.write_rate = config.time_limit_seconds = 0;
  if (plan_.report_interval_seconds > 0) {
    report_file_.BeginRun();
    config.on_second = [this](double seconds, uint64_t operations) {
      report_file_.NoteSecond(seconds, operations);
    };
  }
  BenchResult result;
  CostMeter meter(StoreDirs());
  meter.Start();
  if (traits.writes) store_is_empty_ = false;
  Status status = RunBenchmark(config, store_.get(), &result);
  if (benchmark == "ycsbload") ycsb_is_cut_off_ = !result.finished;
  // What the run has written counts when it is on the device. The clock has stopped before.
  if (status.ok() && traits.writes) status = store_->Sync();
  // A deletion writes no value to compare with.
  RunCosts costs = meter.Stop(benchmark == "deleterandom" ? 0 : result.written_bytes);
  if (!plan_.use_existing_db) live_.Note(config, result);
  costs.space_amplification = SpaceAmplification();
  const Status printed = Note(result, costs);
  return status.ok() ? printed : status.Prefixed(benchmark + ": ");
}

Status BenchSession::Note(const BenchResult& result, const RunCosts& costs) {
  uint32_t round = 0;
  for (const nlohmann::json& run : runs_) round += run["phase"] == result.benchmark ? 1 : 0;
  runs_.push_back(RunJson(kind_.name, round, result, costs));
  std::string text = BenchLine(result);
  if (plan_.histogram) text += PercentileText(result);
  if (plan_.statistics) text += "STATISTICS:\n" + store_->Statistics() + "\n";
  return Print(text);
}

Status BenchSession::PrintHead() const {
  const BenchConfig& config = plan_.config;
  std::printf("engine_race: version %s\n", description_["version"].get<std::string>().c_str());
  std::printf("Store:      %s, %s\n", dir_.path().c_str(),
              machine_["file_system"].get<std::string>().c_str());
  std::printf("Options:    %s\n", description_["options"].dump().c_str());
  std::printf("Keys:       8 bytes each\nValues:     %u bytes each\n", config.value_bytes);
  std::printf("Entries:    %" PRIu64 "\nThreads:    %u\n", config.num, config.thread_count);
  std::printf("RawSize:    %.1f MB\n",
              static_cast<double>(config.num * config.record_bytes()) * 0x1p-20);
  if (config.thread_count > 1 && DividesWrites(plan_.steps)) {
    std::printf("Note:       threads share the writes; in db_bench each thread writes --num\n");
  }
  return Print("------------------------------------------------\n");
}

nlohmann::json BenchSession::ToJson() const {
  nlohmann::json json = {{"kind", "bench"},
                         {"machine", machine_},
                         {"runs", runs_},
                         {"stores", {{kind_.name, description_}}},
                         {"summary", SummaryJson(runs_)}};
  if (!floor_.is_null()) json["floor"] = floor_;
  if (!bucket_fill_.empty()) json["bucket_fill"] = bucket_fill_;
  return json;
}

}  // namespace engine_race::harness
