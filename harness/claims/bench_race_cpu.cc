#include "harness/claims/bench_race_cpu.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/load/bare_writes.h"
#include "harness/load/dense_store.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/fio_runner.h"

namespace harness {

using engine_race::Options;
using engine_race::StagingMode;
using engine_race::Status;
using engine_race::Store;

namespace {

namespace fs = std::filesystem;

void RemoveTree(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

TimedRun WriteStore(Store* store, uint32_t thread_count, uint64_t record_count) {
  return RunStampedWrites(thread_count, record_count, [store](uint32_t) -> WriteFn {
    return [store](uint64_t key, const char* value) {
      char key_bytes[engine_race::kKeyBytes];
      engine_race::EncodeKey(key, key_bytes);
      return store->Write({key_bytes, sizeof(key_bytes)}, {value, kValueSize}).ok();
    };
  });
}

}  // namespace

double RaceCpu::Noted(const std::string& figure, const TimedRun& run) {
  if (run.ok()) rounds_->Note(figure, run.cpu_ns());
  return run.cpu_ns();
}

// Excludes opening and closing: a run of any length has them only once.
double RaceCpu::StoreWriteNs(StagingMode mode) {
  const std::string dir = config_.tmpfs_dir + "/store";
  RemoveTree(dir);
  Options options = QuietOptions();
  options.staging_mode = mode;
  std::unique_ptr<Store> store;
  const Status opened = Store::Open(options, dir, &store);
  if (!opened.ok()) {
    failure_ = "open: " + opened.ToString();
    return 0;
  }
  const TimedRun run = WriteStore(store.get(), config_.thread_count, config_.write_record_count);
  if (!run.ok()) failure_ = "the store on tmpfs refused a write";
  store.reset();
  RemoveTree(dir);
  return Noted(mode == StagingMode::kWritten ? "CPU of a Write staged with pwrite, ns"
                                             : "CPU of a Write, ns",
               run);
}

double RaceCpu::BareWriteNs(uint32_t groups_per_thread) {
  BareWrites loop;
  loop.dir = config_.tmpfs_dir + "/bare";
  loop.thread_count = config_.thread_count;
  loop.record_count = config_.write_record_count;
  loop.groups_per_thread = groups_per_thread;
  RemoveTree(loop.dir);
  std::string error;
  const TimedRun run = RunBareWrites(loop, &error);
  if (!run.ok()) failure_ = "bare loop: " + error;
  RemoveTree(loop.dir);
  return Noted(groups_per_thread == 1 ? "CPU of a bare write, a group a thread, ns"
                                      : "CPU of a bare write, as many groups as buckets, ns",
               run);
}

std::string RaceCpu::CompareWrites() {
  if (config_.tmpfs_dir.empty()) return config_.is_smoke ? "" : "no tmpfs to work in";
  const uint32_t groups_each = std::max(Options().bucket_count / config_.thread_count, 1U);
  double store_ns = 0;
  double bare_ns = 0;
  double spread_bare_ns = 0;
  double pwrite_store_ns = 0;
  const auto noted = [this](double* ns, double run_ns) {
    *ns = run_ns;
    return failure_.empty();
  };
  AlternatingRounds(config_.round_count,
                    {[&] { return noted(&store_ns, StoreWriteNs(StagingMode::kAuto)); },
                     [&] { return noted(&bare_ns, BareWriteNs(1)); },
                     [&] { return noted(&spread_bare_ns, BareWriteNs(groups_each)); },
                     [&] { return noted(&pwrite_store_ns, StoreWriteNs(StagingMode::kWritten)); }},
                    [&](uint32_t) {
                      rounds_->NoteRatio(kWriteCpuOverBare, store_ns, bare_ns);
                      rounds_->NoteRatio("Write over the bare loop with as many groups as buckets",
                                         store_ns, spread_bare_ns);
                      rounds_->NoteRatio("Write staged with pwrite over one that is not",
                                         pwrite_store_ns, store_ns);
                    });
  return failure_;
}

std::string RaceCpu::CompareReads() {
  const std::string parent = config_.dir + "/fio-cpu";
  const StoreShape shape = {parent + "/store", config_.dir, config_.read_record_count,
                            config_.seed};
  StoreRuns store(shape);
  Options options = DenseStoreOptions();
  // Every read goes to the device, as fio's do.
  options.hot_value_bytes = 0;
  if (!store.Write(options, config_.thread_count).ok()) {
    RemoveTree(parent);
    return store.failure();
  }
  FioRunner fio(shape.dir);
  const uint64_t bytes_each = DenseStoreFileBytes(shape.record_count);
  TimedRun reads;
  FioResult device;
  const auto read = [&] {
    reads = store.Read(options, config_.thread_count, config_.read_seconds);
    if (!reads.ok()) failure_ = store.failure();
    return failure_.empty();
  };
  const auto run_fio = [&] {
    device = fio.RandomReadOf(DenseStoreFileNames(), bytes_each, "psync", config_.read_seconds);
    if (!device.ok && !config_.is_smoke) failure_ = "fio: " + device.error;
    return failure_.empty();
  };
  AlternatingRounds(config_.round_count, {read, run_fio}, [&](uint32_t) {
    rounds_->Note("reads a second by blocking threads", reads.rate());
    Noted("CPU of a Read, ns", reads);
    if (!device.ok) return;
    rounds_->Note("reads a second by fio's psync", device.ops_per_second);
    rounds_->Note("CPU of a read by fio's psync, ns", device.cpu_ns_per_op);
    rounds_->NoteRatio(kReadCpuOverFio, reads.cpu_ns(), device.cpu_ns_per_op);
  });
  RemoveTree(parent);
  return failure_;
}

}  // namespace harness
