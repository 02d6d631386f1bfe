// The measured claims about I/O: many reads in flight, back ends, striping.
//
// Compared runs are short and follow each other. A comparison whose rounds scatter gets more of
// them, until the error of each median is small beside its bar or a limit is reached.
#include <fcntl.h>

#include <algorithm>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/experiments/io/raw.h"
#include "harness/load/store_runs.h"

namespace engine_race::harness {
namespace {

constexpr char kMultiRead[] = "multiread_ratio";
constexpr char kOverLibaio[] = "multiread: over fio's libaio";
constexpr char kOverUring[] = "multiread: over fio's io_uring";
constexpr char kManyRate[] = "MultiRead's reads a second";
constexpr char kManyCpu[] = "MultiRead's CPU, ns a read";
constexpr char kTmpfsRate[] = "tmpfs: reads a second by 64 threads";
constexpr char kTmpfsFioRate[] = "tmpfs: fio's reads a second, psync";
constexpr char kWholeCpu[] = "tmpfs: MultiRead's CPU, ns a read, one directory";
constexpr char kStripedCpu[] = "tmpfs: MultiRead's CPU, ns a read, two";
constexpr char kStripeRate[] = "stripe2_rate_overhead";
constexpr char kStripeWrite[] = "stripe2: write rate on the disk";
constexpr char kStripeRange[] = "stripe2: range rate on the disk";

// The errors of medians are a tenth to a quarter of the distance that matters for each bar.
constexpr double kRatioError = 0.01;
constexpr double kCpuRatioError = 0.03;
constexpr double kStripeCpuError = 0.01;
constexpr double kStripeRateError = 0.025;

class IoBench final : public Bench {
 public:
  IoBench() : Bench("io", "many reads in flight, back ends and striping beside the device") {}

 private:
  std::vector<BenchPart> Parts() override {
    const uint64_t bytes = StoreBytes(record_count_) + (uint64_t{1} << 30);
    return {{"multiread",
             {{kMultiRead, ">= 0.96"},
              {"multiread_cpu_over_fio", "<= 1.3", "", kManyCpu, "fio's CPU, ns a read, libaio",
               RatioForm::kOver, kCpuRatioError}},
             [this] { return OfDense([this](StoreRuns* disk) { return MultiReads(disk); }); },
             bytes},
            {"uring",
             {{"uring_cpu_gain", ">= 1.1", "", "bare loop, libaio, CPU, ns a read",
               "bare loop, io_uring, CPU, ns a read", RatioForm::kOver, kCpuRatioError}},
             [this] { return OfDense([this](StoreRuns*) { return BackEnds(); }); },
             bytes},
            {"tmpfs",
             {{"tmpfs_read_ratio", ">= 0.65", "", kTmpfsRate, kTmpfsFioRate, RatioForm::kOver,
               kCpuRatioError}},
             By(&IoBench::TmpfsReads),
             kTmpfs},
            {"stripe",
             {{"stripe2_cpu_overhead", "<= 0.05", "", kStripedCpu, kWholeCpu, RatioForm::kGrowth,
               kStripeCpuError},
              {kStripeRate, "<= 0.1"}},
             [this] {
               ENGINE_RACE_RETURN_IF_ERROR(StripedCpu());
               return StripedRates();
             },
             {bytes, true}}};
  }
  uint64_t TmpfsBytes() override { return 3 * StoreBytes(tmpfs_record_count_); }

  RoundPlan Plan(bool there_and_back = false) const {
    return {round_count_, max_round_count_, false, there_and_back};
  }
  StoreRuns OnDisk() const { return StoreRuns({dir() + "/store", dir(), record_count_, 1}); }
  StoreRuns OnTmpfs(const std::string& name) const {
    return StoreRuns({tmpfs_dir() + name, dir(), tmpfs_record_count_, 1});
  }
  static Options StripedOptions(const std::string& parent) {
    Options options = QuietOptions();
    options.paths = {parent + "/a", parent + "/b"};
    return options;
  }

  // Measures the reads of a new dense store on the disk.
  Status OfDense(const std::function<Status(StoreRuns*)>& measure) {
    more_json_["config"]["buckets_and_files"] = kDenseStoreFiles;
    if (!more_json_.contains("machine")) NoteDevice(uint64_t{is_smoke() ? 16u : 512u} << 20);
    StoreRuns disk = OnDisk();
    ENGINE_RACE_RETURN_IF_ERROR(disk.Fill(DenseStoreOptions(), thread_count_));
    return measure(&disk);
  }

  // Compares MultiRead with fio's two engines, without hot values, because fio has no cache. Also
  // measures the cost of filling frames, over the reads that reached the disk.
  Status MultiReads(StoreRuns* disk) {
    Options options = DenseStoreOptions();
    options.worker_count = worker_count_;
    Options hot_options = options;
    options.hot_value_bytes = 0;
    const auto run = [&](const Options& with, FrameCounts* frames) {
      return disk->MultiRead(with, caller_count_, keys_per_call_, seconds_, frames);
    };
    const auto read = [&] {
      const TimedPoint many = run(options, nullptr);
      rounds_.Note(kManyRate, many.RequestsPerSecond());
      rounds_.Note(kManyCpu, many.CpuNsPerRequest());
      return disk->status();
    };
    const auto read_hot = [&] {
      FrameCounts frames;
      TimedPoint hot = run(hot_options, &frames);
      ENGINE_RACE_RETURN_IF_ERROR(disk->status());
      rounds_.Note("MultiRead's reads that hot values answered, of all",
                   static_cast<double>(frames.hit_count) / static_cast<double>(hot.request_count));
      hot.request_count -= frames.hit_count;
      rounds_.Note("MultiRead's CPU, ns a read, while hot values fill", hot.CpuNsPerRequest());
      return Status::Ok();
    };
    const Status status = rounds_.Run(
        Plan(),
        {[&] { return FioReads("libaio"); }, read, [&] { return FioReads("io_uring"); }, read_hot},
        {{kOverLibaio, kManyRate, "fio's reads a second, libaio", RatioForm::kOver, kRatioError},
         {kOverUring, kManyRate, "fio's reads a second, io_uring", RatioForm::kOver, kRatioError}});
    // fio's best is the engine with the better median of all rounds, not the better one of each
    // round.
    if (rounds_.has(kOverLibaio) && rounds_.has(kOverUring)) {
      rounds_.Settle(kMultiRead, std::min(rounds_.Median(kOverLibaio), rounds_.Median(kOverUring)));
    }
    return status;
  }

  Status BackEnds() {
    return rounds_.Run(Plan(), {[this] { return QueueCpu(IoBackend::kLibaio, "libaio"); },
                                [this] { return QueueCpu(IoBackend::kIoUring, "io_uring"); }});
  }

  Status TmpfsReads() {
    StoreRuns tmpfs = OnTmpfs("/store");
    Options options = DenseStoreOptions();
    options.hot_value_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(tmpfs.Fill(options, thread_count_));
    const auto read = [&] {
      const TimedPoint threads = tmpfs.Read(options, thread_count_, seconds_);
      rounds_.Note(kTmpfsRate, threads.RequestsPerSecond());
      rounds_.Note("tmpfs: CPU of 64 threads, ns a read", threads.CpuNsPerRequest());
      return tmpfs.status();
    };
    const auto run_fio = [&] {
      return NoteFioReads(tmpfs_dir() + "/store", tmpfs_record_count_, "psync", seconds_,
                          kTmpfsFioRate, "tmpfs: fio's CPU, ns a read, psync");
    };
    return rounds_.Run(Plan(), {read, run_fio});
  }

  // Opens two stores with the same keys, one in one directory and one over two.
  Status StripedCpu() {
    const Options options[] = {QuietOptions(), StripedOptions(tmpfs_dir())};
    StoreRuns stores[] = {OnTmpfs("/store"), OnTmpfs("/striped")};
    for (const size_t i : {0, 1}) {
      ENGINE_RACE_RETURN_IF_ERROR(stores[i].Fill(options[i], thread_count_));
    }
    const auto read = [&](size_t i) {
      rounds_.Note(i == 0 ? kWholeCpu : kStripedCpu,
                   stores[i]
                       .MultiRead(options[i], caller_count_, keys_per_call_, seconds_)
                       .CpuNsPerRequest());
      return stores[i].status();
    };
    const Status status = rounds_.Run(Plan(/*there_and_back=*/true),
                                      {[&] { return read(0); }, [&] { return read(1); }});
    for (const size_t i : {0, 1}) stores[i].Remove(options[i]);
    return status;
  }

  Status FioReads(const std::string& engine) {
    return NoteFioReads(dir() + "/store", record_count_, engine, seconds_,
                        "fio's reads a second, " + engine, "fio's CPU, ns a read, " + engine);
  }

  Status QueueCpu(IoBackend backend, const std::string& name) {
    Status status;
    std::vector<RawFile> files;
    for (const std::string& file_name : DenseStoreFileNames()) {
      RawFile& file = files.emplace_back();
      file.size_bytes = DenseStoreFileBytes(record_count_);
      if (!status.ok()) break;
      status =
          sys::OpenAt(AT_FDCWD, dir() + "/store/" + file_name, O_RDONLY | O_DIRECT, 0, &file.fd);
    }
    RawLoad load;
    load.files = files;
    load.backend = {name, backend, /*registered=*/true};
    load.seconds = seconds_;
    TimedPoint run;
    if (status.ok()) status = RunRawReads(load, &run);
    rounds_.Note("bare loop, " + name + ", reads a second", run.RequestsPerSecond());
    rounds_.Note("bare loop, " + name + ", CPU, ns a read", run.CpuNsPerRequest());
    return status.ok() ? status : Missed(Status::IOError("bare loop: " + status.ToString()));
  }

  // Writes a new store each time, then ranges over it.
  Status StripedRates() {
    StoreRuns disk = OnDisk();
    const auto run = [&](const Options& options, const std::string& side) {
      rounds_.Note("writes a second" + side,
                   disk.Write(options, thread_count_).RequestsPerSecond());
      rounds_.Note("range, records a second" + side,
                   disk.Range(options, thread_count_).RequestsPerSecond());
      disk.Remove(options);
      return disk.status();
    };
    const auto ratio = [](const char* name, const std::string& figure) {
      return RoundRatio{name, figure + ", two", figure + ", one directory", RatioForm::kLoss,
                        kStripeRateError};
    };
    const Status status = rounds_.Run(
        Plan(/*there_and_back=*/true),
        {[&] { return run(QuietOptions(), ", one directory"); },
         [&] { return run(StripedOptions(dir()), ", two"); }},
        {ratio(kStripeWrite, "writes a second"), ratio(kStripeRange, "range, records a second")});
    if (rounds_.has(kStripeWrite)) {
      rounds_.Settle(kStripeRate,
                     std::max(rounds_.Median(kStripeWrite), rounds_.Median(kStripeRange)));
    }
    return status;
  }

  Count record_count_{this, "records", 400000, 3000, "--num", "records of a store"};
  Count tmpfs_record_count_{this, "tmpfs_records", 200000,
                            3000, "--tmpfs-num",   "the same on tmpfs"};
  Count32 round_count_{this, "rounds", 9, 1, "--rounds", "of each part, at least"};
  Count32 max_round_count_{
      this, "max_rounds", 31, 1, "--max-rounds", "more of them while they scatter", true};
  Real seconds_{this, "seconds", 1, 0.05, "--seconds", "of each timed run"};
  Count32 keys_per_call_{this, "keys_per_call", 1024};
  Count32 caller_count_{this, "callers", 2, kSame, "--callers", "threads of MultiRead"};
  // One reads while the other checks its values.
  Count32 worker_count_{this, "workers", 1, kSame, "--workers", "that they share"};
  Count32 thread_count_{this, "threads", 64, 4, "--threads", "of everything else"};
};

}  // namespace

std::unique_ptr<Bench> MakeIoBench() { return std::make_unique<IoBench>(); }

}  // namespace engine_race::harness
