#include "harness/claims/race_cpu.h"

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

// Excludes opening and closing: a run of any length has them only once.
Status RaceCpu::StoreWriteNs(StagingMode mode, double* ns) {
  const std::string dir = config_.tmpfs_dir + "/store";
  RemoveTree(dir);
  Options options = QuietOptions();
  options.staging_mode = mode;
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir, &store));
  const TimedRun run = WriteStore(store.get(), config_.thread_count, config_.write_record_count);
  store.reset();
  RemoveTree(dir);
  if (!run.ok()) return Status::IOError("the store on tmpfs refused a write");
  *ns = run.cpu_ns();
  rounds_->Note(mode == StagingMode::kWritten ? "CPU of a Write staged with pwrite, ns"
                                              : "CPU of a Write, ns",
                *ns);
  return Status::Ok();
}

Status RaceCpu::BareWriteNs(uint32_t groups_per_thread, double* ns) {
  BareWrites loop;
  loop.dir = config_.tmpfs_dir + "/bare";
  loop.thread_count = config_.thread_count;
  loop.record_count = config_.write_record_count;
  loop.groups_per_thread = groups_per_thread;
  RemoveTree(loop.dir);
  std::string error;
  const TimedRun run = RunBareWrites(loop, &error);
  RemoveTree(loop.dir);
  if (!run.ok()) return Status::IOError("bare loop: " + error);
  *ns = run.cpu_ns();
  rounds_->Note(groups_per_thread == 1 ? "CPU of a bare write, a group a thread, ns"
                                       : "CPU of a bare write, as many groups as buckets, ns",
                *ns);
  return Status::Ok();
}

Status RaceCpu::CompareWrites() {
  const uint32_t groups_each = std::max(Options().bucket_count / config_.thread_count, 1U);
  double store_ns = 0;
  double bare_ns = 0;
  double spread_bare_ns = 0;
  double pwrite_store_ns = 0;
  return AlternatingRounds(config_.round_count,
                           {[&] { return StoreWriteNs(StagingMode::kAuto, &store_ns); },
                            [&] { return BareWriteNs(1, &bare_ns); },
                            [&] { return BareWriteNs(groups_each, &spread_bare_ns); },
                            [&] { return StoreWriteNs(StagingMode::kWritten, &pwrite_store_ns); }},
                           [&](uint32_t) {
                             rounds_->NoteRatio(kWriteCpuOverBare, store_ns, bare_ns);
                             rounds_->NoteRatio(
                                 "Write over the bare loop with as many groups as buckets",
                                 store_ns, spread_bare_ns);
                             rounds_->NoteRatio("Write staged with pwrite over one that is not",
                                                pwrite_store_ns, store_ns);
                           });
}

Status RaceCpu::CompareReads() {
  const std::string parent = config_.dir + "/read-cpu";
  const StoreShape shape = {parent + "/store", config_.dir, config_.read_record_count,
                            config_.seed};
  StoreRuns store(shape);
  Options options = DenseStoreOptions();
  // Every read goes to the device, as fio's do.
  options.hot_value_bytes = 0;
  store.Write(options, config_.thread_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.status());
  FioRunner fio(shape.dir);
  const uint64_t bytes_each = DenseStoreFileBytes(shape.record_count);
  TimedRun reads;
  FioResult device;
  const auto read = [&] {
    reads = store.Read(options, config_.thread_count, config_.read_seconds);
    return store.status();
  };
  const auto run_fio = [&] {
    device = fio.RandomReadOf(DenseStoreFileNames(), bytes_each, "psync", config_.read_seconds);
    return device.ok || config_.is_smoke ? Status::Ok() : Status::IOError("fio: " + device.error);
  };
  const Status status = AlternatingRounds(config_.round_count, {read, run_fio}, [&](uint32_t) {
    rounds_->Note("reads a second by blocking threads", reads.rate());
    rounds_->Note("CPU of a Read, ns", reads.cpu_ns());
    if (!device.ok) return;
    rounds_->Note("reads a second by fio's psync", device.ops_per_second);
    rounds_->Note("CPU of a read by fio's psync, ns", device.cpu_ns_per_op);
    rounds_->NoteRatio(kReadCpuOverFio, reads.cpu_ns(), device.cpu_ns_per_op);
  });
  RemoveTree(parent);
  return status;
}

}  // namespace harness
