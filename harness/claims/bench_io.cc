#include "harness/claims/bench_io.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "harness/load/dense_store.h"
#include "harness/load/queue_loop.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"

namespace harness {

using engine_race::IoBackend;
using engine_race::Options;

namespace {

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
bool ThereAndBack(uint32_t round, const std::vector<Turn>& turns) {
  return AlternatingRound(round, turns) && AlternatingRound(round + 1, turns);
}

void Add(const TimedRun& run, TimedRun* sum) {
  sum->count += run.count;
  sum->seconds += run.seconds;
  sum->cpu_seconds += run.cpu_seconds;
}

}  // namespace

BenchIo::BenchIo(const IoBenchConfig& config)
    : config_(config),
      disk_(ShapeIn(config.dir, config.record_count)),
      tmpfs_(ShapeIn(config.tmpfs_dir, config.tmpfs_record_count)),
      rounds_(kTargets) {}

StoreShape BenchIo::ShapeIn(const std::string& dir, uint64_t record_count) const {
  return {dir + "/store", config_.dir, record_count, config_.seed};
}

Options BenchIo::StripedOptions(const std::string& dir) const {
  Options options = QuietOptions();
  options.paths = {dir + "/a", dir + "/b"};
  return options;
}

TimedRun BenchIo::Checked(const StoreRuns& runs, const TimedRun& run) {
  if (!run.ok()) Fail(runs.failure());
  return run;
}

bool BenchIo::NeedsRound(uint32_t round, std::initializer_list<Precision> precisions) const {
  if (!errors_.empty() || Interrupted()) return false;
  if (round < config_.round_count) return true;
  if (config_.is_smoke || round >= config_.max_round_count) return false;
  return std::any_of(precisions.begin(), precisions.end(), [this](const Precision& precision) {
    return rounds_.MedianError(precision.figure) > precision.max_error;
  });
}

FioResult BenchIo::FioReads(const std::string& dir, uint64_t record_count,
                            const std::string& engine) {
  FioRunner fio(dir + "/store");
  FioResult result = fio.RandomReadOf(DenseStoreFileNames(), DenseStoreFileBytes(record_count),
                                      engine, config_.seconds);
  if (!result.ok && !config_.is_smoke) Fail("fio, " + engine + ": " + result.error);
  return result;
}

// Measures the disk, so that figures of two machines can be compared.
void BenchIo::MeasureDevice() {
  FioRunner fio(config_.dir);
  const uint64_t bytes = uint64_t{config_.is_smoke ? 16u : 512u} << 20;
  const FioResult reads = fio.RandomRead(bytes);
  const FioResult scan = fio.BestScan(bytes);
  device_ = {{"random_reads_per_second", reads.ops_per_second},
             {"random_reads_by", reads.job},
             {"sequential_read_bytes_per_second", scan.bytes_per_second},
             {"sequential_reads_by", scan.job}};
}

// Compares MultiRead with fio's two engines, without hot values, because fio has no cache. Then
// measures the cost of filling frames, over the reads that reached the disk.
void BenchIo::MultiReads() {
  Options options = DenseStoreOptions();
  options.worker_count = config_.worker_count;
  Options hot_options = options;
  options.hot_value_bytes = 0;
  const auto read = [this](const Options& with) {
    return Checked(
        disk_, disk_.MultiRead(with, config_.caller_count, config_.keys_per_call, config_.seconds));
  };
  const auto is_needed = [this](uint32_t round) {
    return NeedsRound(
        round,
        {{kOverLibaio, kRatioError}, {kOverUring, kRatioError}, {kMultiReadCpu, kCpuRatioError}});
  };
  for (uint32_t round = 0; is_needed(round); ++round) {
    TimedRun many;
    FioResult libaio;
    FioResult uring;
    const auto run_fio = [this](const char* engine, FioResult* result) {
      *result = FioReads(config_.dir, config_.record_count, engine);
      return errors_.empty();
    };
    const auto read_many = [&] {
      many = read(options);
      return many.ok();
    };
    const bool whole =
        AlternatingRound(round, {[&] { return run_fio("libaio", &libaio); }, read_many,
                                 [&] { return run_fio("io_uring", &uring); }});
    if (!whole) return;
    TimedRun hot = read(hot_options);
    if (!hot.ok()) return;
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
  }
}

double BenchIo::QueueCpu(IoBackend backend) {
  QueueLoop loop;
  loop.backend = backend;
  loop.seconds = config_.seconds;
  loop.bytes_each = DenseStoreFileBytes(config_.record_count);
  for (const std::string& name : DenseStoreFileNames()) {
    loop.paths.push_back(config_.dir + "/store/" + name);
  }
  std::string error;
  const TimedRun run = RunQueueLoop(loop, &error);
  if (!run.ok() && !config_.is_smoke) Fail("bare loop: " + error);
  const std::string name = backend == IoBackend::kLibaio ? "libaio" : "io_uring";
  rounds_.Note("bare loop, " + name + ", reads a second", run.rate());
  rounds_.Note("bare loop, " + name + ", CPU, ns a read", run.cpu_ns());
  return run.cpu_ns();
}

void BenchIo::BackEnds() {
  for (uint32_t round = 0; NeedsRound(round, {{kUringGain, kCpuRatioError}}); ++round) {
    double libaio = 0;
    double uring = 0;
    const auto run = [this](IoBackend backend, double* cpu_ns) {
      *cpu_ns = QueueCpu(backend);
      return errors_.empty();
    };
    const bool whole = AlternatingRound(round, {[&] { return run(IoBackend::kLibaio, &libaio); },
                                                [&] { return run(IoBackend::kIoUring, &uring); }});
    if (whole) rounds_.NoteRatio(kUringGain, libaio, uring);
  }
}

void BenchIo::TmpfsReads() {
  Options options = DenseStoreOptions();
  options.hot_value_bytes = 0;
  if (!Checked(tmpfs_, tmpfs_.Write(options, config_.thread_count)).ok()) return;
  for (uint32_t round = 0; NeedsRound(round, {{kTmpfsRead, kCpuRatioError}}); ++round) {
    TimedRun threads;
    FioResult fio;
    const auto read = [&] {
      threads = Checked(tmpfs_, tmpfs_.Read(options, config_.thread_count, config_.seconds));
      return threads.ok();
    };
    const auto run_fio = [&] {
      fio = FioReads(config_.tmpfs_dir, config_.tmpfs_record_count, "psync");
      return errors_.empty();
    };
    if (!AlternatingRound(round, {read, run_fio})) break;
    rounds_.Note("tmpfs: CPU of 64 threads, ns a read", threads.cpu_ns());
    rounds_.Note("tmpfs: fio's CPU, ns a read, psync", fio.cpu_ns_per_op);
    rounds_.NoteRatio(kTmpfsRead, threads.rate(), fio.ops_per_second);
  }
  tmpfs_.Remove(options);
}

// Opens two stores with the same keys, one in one directory and one over two.
void BenchIo::StripedCpu() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(config_.tmpfs_dir);
  StoreRuns striped(
      {config_.tmpfs_dir + "/striped", config_.dir, config_.tmpfs_record_count, config_.seed});
  if (!Checked(tmpfs_, tmpfs_.Write(one, config_.thread_count)).ok()) return;
  if (!Checked(striped, striped.Write(two, config_.thread_count)).ok()) return;
  for (uint32_t round = 0; NeedsRound(round, {{kStripeCpu, kStripeCpuError}}); ++round) {
    std::array<TimedRun, 2> sums;
    const auto read = [&](StoreRuns* runs, const Options& options, TimedRun* sum) {
      const TimedRun run = Checked(*runs, runs->MultiRead(options, config_.caller_count,
                                                          config_.keys_per_call, config_.seconds));
      Add(run, sum);
      return run.ok();
    };
    const bool whole = ThereAndBack(round, {[&] { return read(&tmpfs_, one, &sums[0]); },
                                            [&] { return read(&striped, two, &sums[1]); }});
    if (!whole) return;
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, one directory", sums[0].cpu_ns());
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, two", sums[1].cpu_ns());
    rounds_.Note(kStripeCpu, sums[1].cpu_ns() / sums[0].cpu_ns() - 1);
  }
  striped.Remove(two);
  tmpfs_.Remove(one);
}

// Writes a new store each time, then ranges over it.
void BenchIo::StripedRates() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(config_.dir);
  const auto is_needed = [this](uint32_t round) {
    return NeedsRound(round, {{kStripeWrite, kStripeRateError}, {kStripeRange, kStripeRateError}});
  };
  for (uint32_t round = 0; is_needed(round); ++round) {
    std::array<TimedRun, 2> writes;
    std::array<TimedRun, 2> ranges;
    const auto run = [&](const Options& options, TimedRun* write_sum, TimedRun* range_sum) {
      Add(Checked(disk_, disk_.Write(options, config_.thread_count)), write_sum);
      Add(Checked(disk_, disk_.Range(options, config_.thread_count)), range_sum);
      disk_.Remove(options);
      return errors_.empty();
    };
    const bool whole = ThereAndBack(round, {[&] { return run(one, &writes[0], &ranges[0]); },
                                            [&] { return run(two, &writes[1], &ranges[1]); }});
    if (!whole) return;
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
  }
}

bool BenchIo::Run() {
  if (!FioRunner::Available() && !config_.is_smoke) Fail("fio is missing");
  if (errors_.empty()) MeasureDevice();
  if (Wants("multiread") || Wants("uring")) {
    Checked(disk_, disk_.Write(DenseStoreOptions(), config_.thread_count));
    if (Wants("multiread")) MultiReads();
    if (Wants("uring")) BackEnds();
    disk_.Remove({});
  }
  if (config_.tmpfs_dir.empty() && !config_.is_smoke) Fail("no tmpfs to work in");
  if (!config_.tmpfs_dir.empty()) {
    if (Wants("tmpfs")) TmpfsReads();
    if (Wants("stripe")) StripedCpu();
  }
  if (Wants("stripe")) StripedRates();
  if (Interrupted()) Fail("interrupted");
  Settle();
  return errors_.empty();
}

void BenchIo::Settle() {
  // fio's best is the engine with the better median of all rounds, not the better one of each
  // round.
  if (rounds_.has(kOverLibaio) && rounds_.has(kOverUring)) {
    rounds_.Settle(kMultiRead, std::min(rounds_.Median(kOverLibaio), rounds_.Median(kOverUring)));
  }
  if (rounds_.has(kStripeWrite)) {
    rounds_.Settle(kStripeRate,
                   std::max(rounds_.Median(kStripeWrite), rounds_.Median(kStripeRange)));
  }
}

nlohmann::json BenchIo::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["config"] = {
      {"records", config_.record_count}, {"tmpfs_records", config_.tmpfs_record_count},
      {"rounds", config_.round_count},   {"max_rounds", config_.max_round_count},
      {"seconds", config_.seconds},      {"keys_per_call", config_.keys_per_call},
      {"callers", config_.caller_count}, {"workers", config_.worker_count},
      {"threads", config_.thread_count}, {"buckets_and_files", kDenseStoreFiles},
      {"smoke", config_.is_smoke}};
  json["machine"] = DescribeMachine(config_.dir);
  json["machine"]["device"] = device_;
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
