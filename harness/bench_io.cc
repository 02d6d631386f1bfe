#include "harness/bench_io.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "harness/child_process.h"
#include "harness/machine.h"
#include "harness/queue_loop.h"

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

// The parts of the ratio and of the overhead of rates stand among the rounds.
constexpr ClaimTarget kTargets[] = {{kMultiRead, ">= 0.96"}, {kMultiReadCpu, "<= 1.3"},
                                    {kUringGain, ">= 1.1"},  {kTmpfsRead, ">= 0.65"},
                                    {kStripeCpu, "<= 0.05"}, {kStripeRate, "<= 0.1"}};

// A tenth to a quarter of the distance that matters for each bar.
constexpr double kRatioError = 0.01;
constexpr double kCpuRatioError = 0.03;
constexpr double kStripeCpuError = 0.01;
constexpr double kStripeRateError = 0.025;

constexpr uint32_t kDenseFiles = 32;

std::vector<std::string> ValueFileNames() {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kDenseFiles; ++i) {
    names.push_back((i < 10 ? "value_0" : "value_") + std::to_string(i));
  }
  return names;
}

// What the smallest of the value files surely holds: keys fall evenly, groups are flushed whole.
uint64_t DenseBytes(uint64_t record_count) {
  const uint64_t records = record_count / kDenseFiles * 9 / 10;
  return std::max<uint64_t>(records / 32 * 32, 1) * kValueSize;
}

// Which of two to run, so that neither what drifts nor what the run before left behind is part of
// their difference: each once before and once after the other.
std::array<size_t, 4> ThereAndBack(uint32_t round) {
  const size_t first = round % 2;
  return {first, 1 - first, 1 - first, first};
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

Options BenchIo::DenseOptions() const {
  Options options = QuietOptions();
  options.bucket_count = kDenseFiles;
  options.file_count = kDenseFiles;
  return options;
}

Options BenchIo::StripedOptions(const std::string& dir) const {
  Options options = QuietOptions();
  options.paths = {dir + "/a", dir + "/b"};
  return options;
}

void BenchIo::InTurn(uint32_t round, const std::function<void()>& a,
                     const std::function<void()>& b) {
  if (round % 2 == 0) a();
  b();
  if (round % 2 != 0) a();
}

void BenchIo::InTurn(uint32_t round, const std::function<void()>& a, const std::function<void()>& b,
                     const std::function<void()>& between) {
  round % 2 == 0 ? a() : b();
  between();
  round % 2 == 0 ? b() : a();
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
  FioResult result =
      fio.RandomReadOf(ValueFileNames(), DenseBytes(record_count), engine, config_.seconds);
  if (!result.ok && !config_.is_smoke) Fail("fio, " + engine + ": " + result.error);
  return result;
}

// What the disk gives, so that the figures can be compared with those of another machine.
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

// MultiRead between fio's two ways, without hot values, as fio has no cache; then what it costs to
// fill one, of the reads that reached the disk.
void BenchIo::MultiReads() {
  Options options = DenseOptions();
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
    InTurn(
        round, [&] { libaio = FioReads(config_.dir, config_.record_count, "libaio"); },
        [&] { uring = FioReads(config_.dir, config_.record_count, "io_uring"); },
        [&] { many = read(options); });
    TimedRun hot = read(hot_options);
    if (!many.ok() || !hot.ok()) return;
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
  loop.bytes_each = DenseBytes(config_.record_count);
  for (const std::string& name : ValueFileNames()) {
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
    InTurn(
        round, [&] { libaio = QueueCpu(IoBackend::kLibaio); },
        [&] { uring = QueueCpu(IoBackend::kIoUring); });
    rounds_.NoteRatio(kUringGain, libaio, uring);
  }
}

void BenchIo::TmpfsReads() {
  Options options = DenseOptions();
  options.hot_value_bytes = 0;
  if (!Checked(tmpfs_, tmpfs_.Write(options, config_.thread_count)).ok()) return;
  for (uint32_t round = 0; NeedsRound(round, {{kTmpfsRead, kCpuRatioError}}); ++round) {
    TimedRun threads;
    FioResult fio;
    InTurn(
        round,
        [&] {
          threads = Checked(tmpfs_, tmpfs_.Read(options, config_.thread_count, config_.seconds));
        },
        [&] { fio = FioReads(config_.tmpfs_dir, config_.tmpfs_record_count, "psync"); });
    rounds_.Note("tmpfs: CPU of 64 threads, ns a read", threads.cpu_ns());
    rounds_.Note("tmpfs: fio's CPU, ns a read, psync", fio.cpu_ns_per_op);
    rounds_.NoteRatio(kTmpfsRead, threads.rate(), fio.ops_per_second);
  }
  tmpfs_.Remove(options);
}

// Two stores at once: the same keys in one directory and over two.
void BenchIo::StripedCpu() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(config_.tmpfs_dir);
  StoreRuns striped(
      {config_.tmpfs_dir + "/striped", config_.dir, config_.tmpfs_record_count, config_.seed});
  if (!Checked(tmpfs_, tmpfs_.Write(one, config_.thread_count)).ok()) return;
  if (!Checked(striped, striped.Write(two, config_.thread_count)).ok()) return;
  for (uint32_t round = 0; NeedsRound(round, {{kStripeCpu, kStripeCpuError}}); ++round) {
    std::array<TimedRun, 2> sums;
    for (const size_t which : ThereAndBack(round)) {
      StoreRuns* const runs = which == 0 ? &tmpfs_ : &striped;
      const TimedRun run =
          Checked(*runs, runs->MultiRead(which == 0 ? one : two, config_.caller_count,
                                         config_.keys_per_call, config_.seconds));
      if (!run.ok()) return;
      Add(run, &sums[which]);
    }
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, one directory", sums[0].cpu_ns());
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, two", sums[1].cpu_ns());
    rounds_.Note(kStripeCpu, sums[1].cpu_ns() / sums[0].cpu_ns() - 1);
  }
  striped.Remove(two);
  tmpfs_.Remove(one);
}

// A new store each time, written and then ranged over.
void BenchIo::StripedRates() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(config_.dir);
  const auto is_needed = [this](uint32_t round) {
    return NeedsRound(round, {{kStripeWrite, kStripeRateError}, {kStripeRange, kStripeRateError}});
  };
  for (uint32_t round = 0; is_needed(round); ++round) {
    std::array<TimedRun, 2> writes;
    std::array<TimedRun, 2> ranges;
    for (const size_t which : ThereAndBack(round)) {
      const Options& options = which == 0 ? one : two;
      Add(Checked(disk_, disk_.Write(options, config_.thread_count)), &writes[which]);
      Add(Checked(disk_, disk_.Range(options, config_.thread_count)), &ranges[which]);
      disk_.Remove(options);
      if (!errors_.empty()) return;
    }
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
    Checked(disk_, disk_.Write(DenseOptions(), config_.thread_count));
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
  // fio's best is the engine that is better in most rounds, not whichever was lucky in each.
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
      {"threads", config_.thread_count}, {"buckets_and_files", kDenseFiles},
      {"smoke", config_.is_smoke}};
  json["machine"] = DescribeMachine(config_.dir);
  json["machine"]["device"] = device_;
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
