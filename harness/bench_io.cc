#include "harness/bench_io.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "harness/child_process.h"
#include "harness/fio_runner.h"
#include "harness/machine.h"
#include "harness/queue_loop.h"

namespace harness {

using engine_race::IoBackend;
using engine_race::Options;

namespace {

constexpr char kMultiRead[] = "multiread_ratio";
constexpr char kOverLibaio[] = "multiread: over fio's libaio";
constexpr char kOverUring[] = "multiread: over fio's io_uring";
constexpr char kMultiReadCpu[] = "multiread_vs_64_threads_cpu";
constexpr char kUringGain[] = "uring_cpu_gain";
constexpr char kTmpfsRead[] = "tmpfs_read_ratio";
constexpr char kStripe[] = "stripe2_overhead";
constexpr char kStripeCpu[] = "stripe2: CPU per MultiRead key on tmpfs";
constexpr char kStripeWrite[] = "stripe2: write rate on the disk";
constexpr char kStripeRange[] = "stripe2: range rate on the disk";

// The parts of the ratio and of the overhead stand among the rounds.
constexpr ClaimTarget kTargets[] = {{kMultiRead, ">= 0.97"},
                                    {kMultiReadCpu, "<= 0.45"},
                                    {kUringGain, ">= 1.1"},
                                    {kTmpfsRead, ">= 0.65"},
                                    {kStripe, "<= 0.05"}};

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

double BenchIo::FioRate(const std::string& dir, uint64_t record_count, const std::string& engine) {
  FioRunner fio(dir + "/store");
  const FioResult result =
      fio.RandomReadOf(ValueFileNames(), DenseBytes(record_count), engine, config_.seconds);
  if (!result.ok && !config_.is_smoke) Fail("fio, " + engine + ": " + result.error);
  return result.ok ? result.ops_per_second : 0;
}

// MultiRead between fio's two ways, and beside as many threads as the contest has.
void BenchIo::MultiReads() {
  Options options = DenseOptions();
  options.worker_count = config_.worker_count;
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    TimedRun many;
    TimedRun threads;
    double libaio = 0;
    double uring = 0;
    const auto run_libaio = [&] { libaio = FioRate(config_.dir, config_.record_count, "libaio"); };
    const auto run_uring = [&] { uring = FioRate(config_.dir, config_.record_count, "io_uring"); };
    InTurn(round, run_libaio, run_uring, [&] {
      many = Checked(disk_, disk_.MultiRead(options, config_.caller_count, config_.keys_per_call,
                                            config_.seconds));
    });
    threads = Checked(disk_, disk_.Read(options, config_.thread_count, config_.seconds));
    rounds_.Note("fio's reads a second, libaio", libaio);
    rounds_.Note("fio's reads a second, io_uring", uring);
    rounds_.Note("MultiRead's reads a second", many.rate());
    rounds_.Note("MultiRead's CPU, ns a read", many.cpu_ns());
    rounds_.Note("reads a second by 64 threads", threads.rate());
    rounds_.Note("CPU of 64 threads, ns a read", threads.cpu_ns());
    rounds_.NoteRatio(kOverLibaio, many.rate(), libaio);
    rounds_.NoteRatio(kOverUring, many.rate(), uring);
    rounds_.NoteRatio(kMultiReadCpu, many.cpu_ns(), threads.cpu_ns());
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
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    double libaio = 0;
    double uring = 0;
    InTurn(
        round, [&] { libaio = QueueCpu(IoBackend::kLibaio); },
        [&] { uring = QueueCpu(IoBackend::kIoUring); });
    rounds_.NoteRatio(kUringGain, libaio, uring);
  }
}

void BenchIo::TmpfsReads() {
  const Options options = DenseOptions();
  if (!Checked(tmpfs_, tmpfs_.Write(options, config_.thread_count)).ok()) return;
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    TimedRun threads;
    double fio = 0;
    InTurn(
        round,
        [&] {
          threads = Checked(tmpfs_, tmpfs_.Read(options, config_.thread_count, config_.seconds));
        },
        [&] { fio = FioRate(config_.tmpfs_dir, config_.tmpfs_record_count, "psync"); });
    rounds_.Note("tmpfs: CPU of 64 threads, ns a read", threads.cpu_ns());
    rounds_.NoteRatio(kTmpfsRead, threads.rate(), fio);
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
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    TimedRun plain;
    TimedRun over_two;
    const auto read = [&](StoreRuns* runs, const Options& options) {
      return Checked(*runs, runs->MultiRead(options, config_.caller_count, config_.keys_per_call,
                                            config_.seconds));
    };
    InTurn(
        round, [&] { over_two = read(&striped, two); }, [&] { plain = read(&tmpfs_, one); });
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, one directory", plain.cpu_ns());
    rounds_.Note("tmpfs: MultiRead's CPU, ns a read, two", over_two.cpu_ns());
    if (plain.ok() && over_two.ok()) {
      rounds_.Note(kStripeCpu, over_two.cpu_ns() / plain.cpu_ns() - 1);
    }
  }
  striped.Remove(two);
  tmpfs_.Remove(one);
}

// A new store each time, written and then ranged over.
void BenchIo::StripedRates() {
  const Options one = QuietOptions();
  const Options two = StripedOptions(config_.dir);
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    double writes[2] = {};
    double ranges[2] = {};
    const auto run = [&](size_t which, const Options& options) {
      writes[which] = Checked(disk_, disk_.Write(options, config_.thread_count)).rate();
      ranges[which] = Checked(disk_, disk_.Range(options, config_.thread_count)).rate();
      disk_.Remove(options);
    };
    InTurn(
        round, [&] { run(1, two); }, [&] { run(0, one); });
    if (!errors_.empty()) return;
    for (const size_t which : {0, 1}) {
      const std::string name = which == 0 ? ", one directory" : ", two";
      rounds_.Note("writes a second" + name, writes[which]);
      rounds_.Note("range, records a second" + name, ranges[which]);
    }
    const double write_cost = 1 - writes[1] / writes[0];
    const double range_cost = 1 - ranges[1] / ranges[0];
    rounds_.Note(kStripeWrite, write_cost);
    rounds_.Note(kStripeRange, range_cost);
    std::fprintf(stderr, "two directories: write %+.3f, range %+.3f\n", write_cost, range_cost);
  }
}

bool BenchIo::Run() {
  if (!FioRunner::Available() && !config_.is_smoke) Fail("fio is missing");
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
  if (rounds_.has(kStripeCpu) && rounds_.has(kStripeWrite)) {
    rounds_.Settle(kStripe, std::max({rounds_.Median(kStripeCpu), rounds_.Median(kStripeWrite),
                                      rounds_.Median(kStripeRange)}));
  }
}

nlohmann::json BenchIo::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["config"] = {
      {"records", config_.record_count},        {"tmpfs_records", config_.tmpfs_record_count},
      {"rounds", config_.round_count},          {"seconds", config_.seconds},
      {"keys_per_call", config_.keys_per_call}, {"callers", config_.caller_count},
      {"workers", config_.worker_count},        {"threads", config_.thread_count},
      {"buckets_and_files", kDenseFiles},       {"smoke", config_.is_smoke}};
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
