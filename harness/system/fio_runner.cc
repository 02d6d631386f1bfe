#include "harness/system/fio_runner.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "engine_race/base/round_up.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kWriteBlockBytes = 128 * 1024;
constexpr uint64_t kReadBlockBytes = 4096;
constexpr uint64_t kBlockingJobs = 64;
constexpr char kReadFile[] = "fio-read";
constexpr char kFilePrefix[] = "fio-";

std::string Arg(std::string_view name, uint64_t value) {
  return std::string(name) + "=" + std::to_string(value);
}

// At least one.
uint64_t WholeBlocks(uint64_t bytes) {
  return RoundUp(std::max(bytes, kReadBlockBytes), kReadBlockBytes);
}

std::string Kib(uint64_t bytes) { return std::to_string(bytes / 1024) + " KiB"; }

std::string Runtime(double seconds) {
  return Arg("--runtime", static_cast<uint64_t>(seconds * 1e3)) + "ms";
}

void RemoveFiles(const std::string& dir, std::string_view prefix) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

// fio may print warnings before its JSON.
nlohmann::json ParseOutput(const std::string& output) {
  const size_t start = output.find('{');
  if (start == std::string::npos) return nlohmann::json();
  return nlohmann::json::parse(output.substr(start), nullptr, false);
}

FioResult Failed(std::string words, std::string error) {
  FioResult result;
  result.job = std::move(words);
  result.error = std::move(error);
  return result;
}

// For a group of jobs, fio's percentages relate to `job_runtime`, the sum over the jobs.
double CpuNs(const nlohmann::json& figures) {
  const double percent = figures.value("usr_cpu", 0.0) + figures.value("sys_cpu", 0.0);
  const double job_runtime_ms = figures.value("job_runtime", 0.0);
  return percent / 100 * job_runtime_ms * 1e6;
}

const FioResult& Better(const FioResult& a, const FioResult& b) {
  if (a.ok != b.ok) return a.ok ? a : b;
  return a.bytes_per_second >= b.bytes_per_second ? a : b;
}

FioJob ScanJob(uint64_t block_bytes, uint32_t depth, uint64_t bytes) {
  return {"sequential read of " + Kib(block_bytes) + ", libaio, depth " + std::to_string(depth),
          {"--rw=read", Arg("--bs", block_bytes), "--ioengine=libaio", Arg("--iodepth", depth),
           std::string("--filename=") + kReadFile, Arg("--size", RoundUp(bytes, kMiB))},
          false};
}

}  // namespace

FioRunner::~FioRunner() { RemoveFile(); }

bool FioRunner::Available() {
  const ChildResult child = RunChild({"fio", "--version"});
  return child.started && child.exit_code == 0;
}

FioResult FioRunner::ReadReport(const FioJob& job, const std::string& output, int exit_code) {
  const nlohmann::json report = ParseOutput(output);
  if (!report.is_object() || !report.contains("jobs") || report["jobs"].empty()) {
    return Failed(job.words, "fio gave no report, exit code " + std::to_string(exit_code));
  }
  const nlohmann::json& figures = report["jobs"][0];
  const int error = figures.value("error", 0);
  if (error != 0 || exit_code != 0) {
    return Failed(job.words, "fio failed with error " + std::to_string(error));
  }
  FioResult result;
  result.job = job.words;
  double op_count = 0;
  // fio counts in whole milliseconds.
  double runtime_ms = 1;
  for (const char* name : {"read", "write"}) {
    if (!job.mixes && job.writes != (*name == 'w')) continue;
    const nlohmann::json direction = figures.value(name, nlohmann::json::object());
    op_count += direction.value("total_ios", 0.0);
    result.bytes += direction.value("io_bytes", uint64_t{0});
    runtime_ms = std::max(runtime_ms, direction.value("runtime", 0.0));
  }
  result.seconds = runtime_ms * 1e-3;
  result.bytes_per_second = static_cast<double>(result.bytes) / result.seconds;
  result.ops_per_second = op_count / result.seconds;
  result.ok = result.bytes > 0 && op_count > 0;
  if (!result.ok) return Failed(job.words, "fio moved nothing");
  result.cpu_ns_per_op = CpuNs(figures) / op_count;
  return result;
}

FioResult FioRunner::Run(const FioJob& job) {
  if (Interrupted()) return Failed(job.words, "interrupted");
  std::vector<std::string> args = {"fio",
                                   "--name=device",
                                   "--output-format=json",
                                   "--eta=never",
                                   "--direct=1",
                                   "--thread",
                                   "--randrepeat=0",
                                   "--group_reporting",
                                   "--fallocate=none",
                                   "--directory=" + dir_};
  args.insert(args.end(), job.args.begin(), job.args.end());
  const ChildResult child = RunChild(args);
  if (!child.started) return Failed(job.words, child.error);
  if (Interrupted()) return Failed(job.words, "interrupted");
  return ReadReport(job, child.output, child.exit_code);
}

FioResult FioRunner::BestWrite(uint64_t bytes, uint64_t least_block_bytes) {
  const uint64_t block_bytes = std::max(kWriteBlockBytes, WholeBlocks(least_block_bytes));
  const uint64_t one_file_bytes = RoundUp(bytes, block_bytes);
  const uint64_t per_job_bytes = RoundUp(bytes / kBlockingJobs, block_bytes);
  const std::string words = "random writes of " + Kib(block_bytes);
  const FioJob one_file = {words + ", libaio, depth 16, one new file",
                           {"--rw=randwrite", Arg("--bs", block_bytes), "--ioengine=libaio",
                            "--iodepth=16", "--filename=fio-write", Arg("--size", one_file_bytes)},
                           true};
  const FioJob many_files = {words + ", 64 blocking jobs, a new file each",
                             {"--rw=randwrite", Arg("--bs", block_bytes), "--ioengine=psync",
                              Arg("--numjobs", kBlockingJobs),
                              "--filename_format=fio-write.$jobnum", Arg("--size", per_job_bytes)},
                             true};
  const FioResult first = Run(one_file);
  RemoveFiles(dir_, "fio-write");
  const FioResult second = Run(many_files);
  RemoveFiles(dir_, "fio-write");
  return Better(first, second);
}

FioResult FioRunner::RandomRead(uint64_t bytes, uint64_t wanted_bytes, uint64_t read_count) {
  std::string error;
  const uint64_t block_bytes = WholeBlocks(wanted_bytes);
  const std::string words = "random reads of " + Kib(block_bytes);
  if (!PrepareFile(bytes, &error)) return Failed(words, error);
  const uint64_t per_job_bytes = RoundUp(read_count, kBlockingJobs) / kBlockingJobs * block_bytes;
  return Run({words + ", 64 blocking jobs on one file",
              {"--rw=randread", Arg("--bs", block_bytes), "--ioengine=psync", "--norandommap",
               Arg("--numjobs", kBlockingJobs), std::string("--filename=") + kReadFile,
               Arg("--size", prepared_bytes_), Arg("--io_size", per_job_bytes)},
              false});
}

FioResult FioRunner::RandomReadOf(const std::vector<std::string>& names, uint64_t bytes_each,
                                  const std::string& engine, double seconds) {
  std::string filename = "--filename=";
  for (const std::string& name : names) filename += (name == names.front() ? "" : ":") + name;
  FioJob job = {"random reads of 4 KiB, " + engine,
                {"--rw=randread", Arg("--bs", kReadBlockBytes), "--ioengine=" + engine, filename,
                 Arg("--filesize", bytes_each), "--norandommap", "--readonly",
                 "--allow_file_create=0", "--gtod_reduce=1", "--time_based", Runtime(seconds)},
                false};
  if (engine == "psync") {
    job.words += ", 64 blocking jobs";
    job.args.push_back(Arg("--numjobs", kBlockingJobs));
  } else {
    job.words += ", depth 128";
    for (const char* arg : {"--iodepth=128", "--iodepth_batch_submit=16",
                            "--iodepth_batch_complete_min=16", "--iodepth_batch_complete_max=16"}) {
      job.args.emplace_back(arg);
    }
  }
  return Run(job);
}

std::string FioRunner::BlocksOfMean(uint64_t mean_bytes) {
  const uint64_t larger = WholeBlocks(mean_bytes);
  const uint64_t more = larger - std::max(mean_bytes, kReadBlockBytes);
  const uint64_t percent = 100 - more * 100 / kReadBlockBytes;
  std::string blocks = std::to_string(larger) + "/" + std::to_string(percent);
  if (percent < 100) {
    blocks += ":" + std::to_string(larger - kReadBlockBytes) + "/" + std::to_string(100 - percent);
  }
  return blocks;
}

FioResult FioRunner::RandomMix(const FioMix& mix, double seconds) {
  std::string error;
  const std::string words = "random reads and writes, libaio, depth 64";
  if (!PrepareFile(mix.file_bytes, &error)) return Failed(words, error);
  return Run({words,
              {"--rw=randrw", Arg("--rwmixread", mix.read_percent),
               "--bssplit=" + BlocksOfMean(mix.read_bytes) + "," + BlocksOfMean(mix.write_bytes),
               "--ioengine=libaio", "--iodepth=64", std::string("--filename=") + kReadFile,
               Arg("--size", prepared_bytes_), "--norandommap", "--time_based", Runtime(seconds)},
              false,
              true});
}

FioResult FioRunner::BestScan(uint64_t bytes) {
  std::string error;
  if (!PrepareFile(bytes, &error)) return Failed("sequential reads", error);
  FioResult best;
  // Tries several shapes: which one is fastest varies from day to day, by a factor of two.
  for (const uint64_t block_bytes : {uint64_t{256} * 1024, kMiB}) {
    for (const uint32_t depth : {16u, 64u}) {
      best = Better(Run(ScanJob(block_bytes, depth, bytes)), best);
    }
  }
  return best;
}

bool FioRunner::PrepareFile(uint64_t bytes, std::string* error) {
  const uint64_t file_bytes = RoundUp(std::max(bytes, kMiB), kMiB);
  if (prepared_bytes_ == file_bytes) return true;
  RemoveFile();
  const FioResult written =
      Run({"writing the file that is read",
           {"--rw=write", Arg("--bs", kMiB), "--ioengine=libaio", "--iodepth=16",
            std::string("--filename=") + kReadFile, Arg("--size", file_bytes)},
           true});
  *error = written.error;
  if (written.ok) {
    prepared_bytes_ = file_bytes;
  } else {
    RemoveFiles(dir_, kFilePrefix);
  }
  return written.ok;
}

void FioRunner::RemoveFile() {
  if (prepared_bytes_ == 0) return;
  RemoveFiles(dir_, kReadFile);
  prepared_bytes_ = 0;
}

}  // namespace engine_race::harness
