// The measured claims about I/O: many reads in flight, back ends, striping.
//
// Compared runs are short and follow each other. A comparison whose rounds scatter gets more of
// them, until the error of each median is small beside its bar or a limit is reached.
#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/load/dense_store.h"
#include "harness/load/queue_loop.h"
#include "harness/load/store_runs.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/fio_runner.h"

namespace harness {
namespace {

using engine_race::IoBackend;
using engine_race::Options;
using engine_race::Status;

constexpr char kMultiRead[] = "multiread_ratio";
constexpr char kOverLibaio[] = "multiread: over fio's libaio";
constexpr char kOverUring[] = "multiread: over fio's io_uring";
constexpr char kMultiReadCpu[] = "multiread_cpu_over_fio";
constexpr char kUringGain[] = "uring_cpu_gain";
constexpr char kTmpfsRead[] = "tmpfs_read_ratio";
constexpr char kStripeCpu[] = "stripe2_cpu_overhead";
constexpr char kStripeRate[] = "stripe2_rate_overhead";
constexpr char kStripeWrite[] = "stripe2: write rate on the disk";
constexpr char kStripeRange[] = "stripe2: range rate on the disk";

// The figures behind the ratio and the overhead of rates are noted in the rounds too.
constexpr ClaimTarget kTargets[] = {{kMultiRead, ">= 0.96"}, {kMultiReadCpu, "<= 1.3"},
                                    {kUringGain, ">= 1.1"},  {kTmpfsRead, ">= 0.65"},
                                    {kStripeCpu, "<= 0.05"}, {kStripeRate, "<= 0.1"}};

// The errors are a tenth to a quarter of the distance that matters for each bar.
constexpr double kRatioError = 0.01;
constexpr double kCpuRatioError = 0.03;
constexpr double kStripeCpuError = 0.01;
constexpr double kStripeRateError = 0.025;

// Two rounds in a row: each side runs once before and once after the other. So neither drift nor
// the effects of the run before are part of their difference.
Status ThereAndBack(uint32_t round, const std::vector<Turn>& turns) {
  ENGINE_RACE_RETURN_IF_ERROR(AlternatingRound(round, turns));
  return AlternatingRound(round + 1, turns);
}

void Add(const TimedRun& run, TimedRun* sum) {
  sum->count += run.count;
  sum->seconds += run.seconds;
  sum->cpu_seconds += run.cpu_seconds;
}

struct IoConfig {
  uint64_t record_count = 400000;
  uint64_t tmpfs_record_count = 200000;
  // Rounds of each part: at least and at most.
  uint32_t round_count = 9;
  uint32_t max_round_count = 31;
  double seconds = 1;  // of each timed run that has no end of its own
  uint32_t keys_per_call = 1024;
  uint32_t caller_count = 2;  // threads that call MultiRead
  uint32_t worker_count = 1;  // which they share: one reads while the other checks its values
  uint32_t thread_count = 64;
};

class IoBench final : public Bench {
 public:
  IoBench()
      : Bench("io", "many reads in flight, back ends and striping beside the device", kTargets) {}

  std::vector<Setting> Settings() override {
    IoConfig& c = config_;
    return {{"records", &c.record_count, 3000, "--num", "records of a store"},
            {"tmpfs_records", &c.tmpfs_record_count, 3000, "--tmpfs-num", "the same on tmpfs"},
            {"rounds", &c.round_count, 1, "--rounds", "of each part, at least"},
            {"max_rounds", &c.max_round_count, 1, "--max-rounds", "more of them while they scatter",
             true},
            {"seconds", &c.seconds, 0.05, "--seconds", "of each timed run"},
            {"keys_per_call", &c.keys_per_call},
            {"callers", &c.caller_count, kSame, "--callers", "threads of MultiRead"},
            {"workers", &c.worker_count, kSame, "--workers", "that they share"},
            {"threads", &c.thread_count, 4, "--threads", "of everything else"}};
  }

 private:
  std::vector<BenchPart> Parts() override {
    const uint64_t bytes = StoreBytes(config_.record_count) + (uint64_t{1} << 30);
    return {{"multiread",
             {kMultiRead, kMultiReadCpu},
             [this] { return OfDense([this](StoreRuns* disk) { return MultiReads(disk); }); },
             bytes},
            {"uring",
             {kUringGain},
             [this] { return OfDense([this](StoreRuns*) { return BackEnds(); }); },
             bytes},
            {"tmpfs", {kTmpfsRead}, [this] { return TmpfsReads(); }, 0, true},
            {"stripe",
             {kStripeCpu, kStripeRate},
             [this] {
               ENGINE_RACE_RETURN_IF_ERROR(StripedCpu());
               return StripedRates();
             },
             bytes,
             true}};
  }
  uint64_t TmpfsBytes() override { return 3 * StoreBytes(config_.tmpfs_record_count); }
  void AddTo(nlohmann::json* json) override {
    (*json)["config"]["buckets_and_files"] = kDenseStoreFiles;
    (*json)["machine"]["device"] = device_;
  }

  StoreShape ShapeIn(const std::string& parent, uint64_t record_count) const {
    return {parent + "/store", dir(), record_count, 1};
  }
  static Options StripedOptions(const std::string& parent);
  StoreRuns OnDisk() const { return StoreRuns(ShapeIn(dir(), config_.record_count)); }
  StoreRuns OnTmpfs() const { return StoreRuns(ShapeIn(tmpfs_dir(), config_.tmpfs_record_count)); }

  // Measures the disk, so that figures of two machines can be compared.
  void MeasureDevice();
  // Measures the reads of a new dense store on the disk.
  Status OfDense(const std::function<Status(StoreRuns*)>& measure);
  Status MultiReads(StoreRuns* disk);
  Status BackEnds();
  Status TmpfsReads();
  Status StripedCpu();
  Status StripedRates();

  // fio over the store's own value files. In a smoke run it may fail, with zeros.
  Status FioReads(const std::string& parent, uint64_t record_count, const std::string& engine,
                  FioResult* result) const;
  Status QueueCpu(IoBackend backend, double* cpu_ns);
  // The largest error that the median of a figure may have.
  struct Precision {
    const char* figure;
    double max_error;
  };
  // Runs a round after another while one of the medians is too rough.
  Status PreciseRounds(const std::function<Status(uint32_t round)>& run,
                       std::initializer_list<Precision> precisions) const;

  IoConfig config_;
  nlohmann::json device_;
};

Options IoBench::StripedOptions(const std::string& parent) {
  Options options = QuietOptions();
  options.paths = {parent + "/a", parent + "/b"};
  return options;
}

Status IoBench::PreciseRounds(const std::function<Status(uint32_t round)>& run,
                              std::initializer_list<Precision> precisions) const {
  const auto is_rough = [this](const Precision& precision) {
    return rounds_.MedianError(precision.figure) > precision.max_error;
  };
  for (uint32_t round = 0; round < std::max(config_.round_count, config_.max_round_count);
       ++round) {
    const bool is_needed =
        round < config_.round_count || std::any_of(precisions.begin(), precisions.end(), is_rough);
    if (!is_needed) break;
    ENGINE_RACE_RETURN_IF_ERROR(run(round));
  }
  return Status::Ok();
}

Status IoBench::FioReads(const std::string& parent, uint64_t record_count,
                         const std::string& engine, FioResult* result) const {
  FioRunner fio(parent + "/store");
  *result = fio.RandomReadOf(DenseStoreFileNames(), DenseStoreFileBytes(record_count), engine,
                             config_.seconds);
  if (result->ok || is_smoke()) return Status::Ok();
  return Status::IOError("fio, " + engine + ": " + result->error);
}

void IoBench::MeasureDevice() {
  if (!device_.is_null()) return;
  FioRunner fio(dir());
  const uint64_t bytes = uint64_t{is_smoke() ? 16u : 512u} << 20;
  const FioResult reads = fio.RandomRead(bytes);
  const FioResult scan = fio.BestScan(bytes);
  device_ = {{"random_reads_per_second", reads.ops_per_second},
             {"random_reads_by", reads.job},
             {"sequential_read_bytes_per_second", scan.bytes_per_second},
             {"sequential_reads_by", scan.job}};
}

Status IoBench::OfDense(const std::function<Status(StoreRuns*)>& measure) {
  MeasureDevice();
  StoreRuns disk = OnDisk();
  disk.Write(DenseStoreOptions(), config_.thread_count);
  const Status status = disk.status().ok() ? measure(&disk) : disk.status();
  disk.Remove({});
  return status;
}

// Compares MultiRead with fio's two engines, without hot values, because fio has no cache. Then
// measures the cost of filling frames, over the reads that reached the disk.
Status IoBench::MultiReads(StoreRuns* disk) {
  Options options = DenseStoreOptions();
  options.worker_count = config_.worker_count;
  Options hot_options = options;
  options.hot_value_bytes = 0;
  const auto read = [&](const Options& with, TimedRun* run) {
    *run = disk->MultiRead(with, config_.caller_count, config_.keys_per_call, config_.seconds);
    return disk->status();
  };
  const auto run_fio = [this](const char* engine, FioResult* result) {
    return FioReads(dir(), config_.record_count, engine, result);
  };
  const auto run_round = [&](uint32_t round) {
    TimedRun many;
    TimedRun hot;
    FioResult libaio;
    FioResult uring;
    ENGINE_RACE_RETURN_IF_ERROR(AlternatingRound(
        round, {[&] { return run_fio("libaio", &libaio); }, [&] { return read(options, &many); },
                [&] { return run_fio("io_uring", &uring); }}));
    ENGINE_RACE_RETURN_IF_ERROR(read(hot_options, &hot));
    rounds_.Note("MultiRead's reads that hot values answered, of all",
                 static_cast<double>(hot.hit_count) / static_cast<double>(hot.count));
    hot.count -= hot.hit_count;
    rounds_.Note("MultiRead's CPU, ns a read, while hot values fill", hot.cpu_ns());
    rounds_.Note("fio's reads a second, libaio", libaio.ops_per_second);
    rounds_.Note("fio's reads a second, io_uring", uring.ops_per_second);
    rounds_.Note("fio's CPU, ns a read, libaio", libaio.cpu_ns_per_op);
    rounds_.Note("fio's CPU, ns a read, io_uring", uring.cpu_ns_per_op);
    rounds_.Note("MultiRead's reads a second", many.rate());
    rounds_.Note("MultiRead's CPU, ns a read", many.cpu_ns());
    rounds_.NoteRatio(kOverLibaio, many.rate(), libaio.ops_per_second);
    rounds_.NoteRatio(kOverUring, many.rate(), uring.ops_per_second);
    rounds_.NoteRatio(kMultiReadCpu, many.cpu_ns(), libaio.cpu_ns_per_op);
    return Status::Ok();
  };
  const Status status = PreciseRounds(
      run_round,
      {{kOverLibaio, kRatioError}, {kOverUring, kRatioError}, {kMultiReadCpu, kCpuRatioError}});
  // fio's best is the engine with the better median of all rounds, not the better one of each
  // round.
  if (rounds_.has(kOverLibaio) && rounds_.has(kOverUring)) {
    rounds_.Settle(kMultiRead, std::min(rounds_.Median(kOverLibaio), rounds_.Median(kOverUring)));
  }
  return status;
}

Status IoBench::QueueCpu(IoBackend backend, double* cpu_ns) {
  QueueLoop loop;
  loop.backend = backend;
  loop.seconds = config_.seconds;
  loop.bytes_each = DenseStoreFileBytes(config_.record_count);
  for (const std::string& name : DenseStoreFileNames()) {
    loop.paths.push_back(dir() + "/store/" + name);
  }
  std::string error;
  const TimedRun run = RunQueueLoop(loop, &error);
  if (!run.ok() && !is_smoke()) return Status::IOError("bare loop: " + error);
  const std::string name = backend == IoBackend::kLibaio ? "libaio" : "io_uring";
  rounds_.Note("bare loop, " + name + ", reads a second", run.rate());
  rounds_.Note("bare loop, " + name + ", CPU, ns a read", run.cpu_ns());
  *cpu_ns = run.cpu_ns();
  return Status::Ok();
}

Status IoBench::BackEnds() {
  const auto run_round = [this](uint32_t round) {
    double libaio = 0;
    double uring = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        AlternatingRound(round, {[&] { return QueueCpu(IoBackend::kLibaio, &libaio); },
                                 [&] { return QueueCpu(IoBackend::kIoUring, &uring); }}));
    rounds_.NoteRatio(kUringGain, libaio, uring);
    return Status::Ok();
  };
  return PreciseRounds(run_round, {{kUringGain, kCpuRatioError}});
}

Status IoBench::TmpfsReads() {
  StoreRuns tmpfs = OnTmpfs();
  Options options = DenseStoreOptions();
  options.hot_value_bytes = 0;
  tmpfs.Write(options, config_.thread_count);
  ENGINE_RACE_RETURN_IF_ERROR(tmpfs.status());
  const auto run_round = [&](uint32_t round) {
    TimedRun threads;
    FioResult fio;
    const auto read = [&] {
      threads = tmpfs.Read(options, config_.thread_count, config_.seconds);
      return tmpfs.status();
    };
    const auto run_fio = [&] {
      return FioReads(tmpfs_dir(), config_.tmpfs_record_count, "psync", &fio);
    };
    ENGINE_RACE_RETURN_IF_ERROR(AlternatingRound(round, {read, run_fio}));
    rounds_.Note("tmpfs: CPU of 64 threads, ns a read", threads.cpu_ns());
    rounds_.Note("tmpfs: fio's CPU, ns a read, psync", fio.cpu_ns_per_op);
    rounds_.NoteRatio(kTmpfsRead, threads.rate(), fio.ops_per_second);
    return Status::Ok();
  };
  const Status status = PreciseRounds(run_round, {{kTmpfsRead, kCpuRatioError}});
  tmpfs.Remove(options);
  return status;
}

// Opens two stores with the same keys, one in one directory and one over two.
Status IoBench::StripedCpu() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(tmpfs_dir());
  StoreRuns whole = OnTmpfs();
  StoreRuns striped({tmpfs_dir() + "/striped", dir(), config_.tmpfs_record_count, 1});
  whole.Write(one, config_.thread_count);
  ENGINE_RACE_RETURN_IF_ERROR(whole.status());
  striped.Write(two, config_.thread_count);
  ENGINE_RACE_RETURN_IF_ERROR(striped.status());
  const auto read = [this](StoreRuns* runs, const Options& options, TimedRun* sum) {
    Add(runs->MultiRead(options, config_.caller_count, config_.keys_per_call, config_.seconds),
        sum);
    return runs->status();
  };
  const auto run_round = [&](uint32_t round) {
    std::array<TimedRun, 2> sums;
    ENGINE_RACE_RETURN_IF_ERROR(
        ThereAndBack(round, {[&] { return read(&whole, one, &sums[0]); },
                             [&] { return read(&striped, two, &sums[1]); }}));
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, one directory", sums[0].cpu_ns());
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, two", sums[1].cpu_ns());
    rounds_.Note(kStripeCpu, sums[1].cpu_ns() / sums[0].cpu_ns() - 1);
    return Status::Ok();
  };
  const Status status = PreciseRounds(run_round, {{kStripeCpu, kStripeCpuError}});
  striped.Remove(two);
  whole.Remove(one);
  return status;
}

// Writes a new store each time, then ranges over it.
Status IoBench::StripedRates() {
  StoreRuns disk = OnDisk();
  const Options one = QuietOptions();
  const Options two = StripedOptions(dir());
  const auto run = [&](const Options& options, TimedRun* write_sum, TimedRun* range_sum) {
    Add(disk.Write(options, config_.thread_count), write_sum);
    Add(disk.Range(options, config_.thread_count), range_sum);
    disk.Remove(options);
    return disk.status();
  };
  const auto run_round = [&](uint32_t round) {
    std::array<TimedRun, 2> writes;
    std::array<TimedRun, 2> ranges;
    ENGINE_RACE_RETURN_IF_ERROR(
        ThereAndBack(round, {[&] { return run(one, &writes[0], &ranges[0]); },
                             [&] { return run(two, &writes[1], &ranges[1]); }}));
    for (const size_t which : {0, 1}) {
      const std::string name = which == 0 ? ", one directory" : ", two";
      rounds_.Note("writes a second" + name, writes[which].rate());
      rounds_.Note("range, records a second" + name, ranges[which].rate());
    }
    const double write_cost = 1 - writes[1].rate() / writes[0].rate();
    const double range_cost = 1 - ranges[1].rate() / ranges[0].rate();
    rounds_.Note(kStripeWrite, write_cost);
    rounds_.Note(kStripeRange, range_cost);
    std::fprintf(stderr, "two directories: write %+.3f, range %+.3f\n", write_cost, range_cost);
    return Status::Ok();
  };
  const Status status = PreciseRounds(
      run_round, {{kStripeWrite, kStripeRateError}, {kStripeRange, kStripeRateError}});
  if (rounds_.has(kStripeWrite)) {
    rounds_.Settle(kStripeRate,
                   std::max(rounds_.Median(kStripeWrite), rounds_.Median(kStripeRange)));
  }
  return status;
}

}  // namespace

std::unique_ptr<Bench> MakeIoBench() { return std::make_unique<IoBench>(); }

}  // namespace harness
