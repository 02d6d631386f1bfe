#include "harness/claims/space_runs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "engine_race/base/key.h"
#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::KeyBytes;
using engine_race::Status;
using engine_race::Store;

constexpr uint64_t kTurnStream = 0x7475726e;
constexpr uint64_t kPreconditionStream = 0x70726563;

PutFn PutInto(KvStore* store) {
  return [store](uint64_t key, const char* value) { return store->Put(key, value); };
}

void PrintProgress(const std::string& label, const SpaceSamples& samples, double share,
                   uint64_t live_count) {
  const SpaceSample& first = samples.front();
  const SpaceSample& last = samples.back();
  std::fprintf(stderr, "%s: %3.0f %%, %.0f MB/s, space %.2f", label.c_str(), 100 * share,
               Megabytes(WriteRate(first, last)), SpaceAmplification(last.disk_bytes, live_count));
  if (last.log_bytes > 0) {
    std::fprintf(
        stderr, ", written %.2f",
        WriteAmplification(last.log_bytes - first.log_bytes, last.write_count - first.write_count));
  }
  std::fprintf(stderr, "\n");
}

// Runs `work` between opening and closing. A failure of `work` counts more than one of closing.
template <typename Work>
Status WithStore(const KvStoreKind& kind, const KvOptions& options, const Work& work) {
  std::unique_ptr<KvStore> store;
  ENGINE_RACE_RETURN_IF_ERROR(kind.open(options, &store));
  const Status worked = work(store.get());
  const Status closed = store->Close();
  return worked.ok() ? closed : worked;
}

// As WithStore, with writers. They stop before the store is closed.
template <typename Work>
Status WithWriters(const SpaceConfig& config, const SpaceRecords& records, const KvStoreKind& kind,
                   const KvOptions& options, uint64_t seed, const Work& work) {
  return WithStore(kind, options, [&](KvStore* store) {
    Overwriters writers(records, {.thread_count = config.thread_count, .seed = seed},
                        PutInto(store));
    const SpaceProbe probe(options.dir, nullptr, writers);
    const Status worked = work(writers, probe);
    const Status stopped = writers.Stop();
    // A failed write is why the watch has ended.
    return stopped.ok() ? worked : stopped;
  });
}

}  // namespace

void ScratchStore::Remove() const {
  std::error_code ignored;
  const std::filesystem::path parent = std::filesystem::path(dir_).parent_path();
  std::filesystem::remove_all(dir_, ignored);
  const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::syncfs(fd);
  ::close(fd);
}

engine_race::Options SpaceOptions(const SpaceConfig& config, engine_race::Reclaim reclaim) {
  engine_race::Options options = QuietOptions();
  options.memory_budget_bytes = config.memory_budget_bytes;
  options.reclaim = reclaim;
  return options;
}

PutFn PutInto(Store* store) {
  return [store](uint64_t key, const char* value) {
    return store->Write(KeyBytes(key).view(), {value, kValueSize});
  };
}

GetFn GetFrom(Store* store) {
  return [store](uint64_t key, char* value) { return store->ReadInto(key, value); };
}

SpaceProbe::SpaceProbe(const std::string& dir, const Store* store, const Overwriters& writers)
    : dir_(dir), store_(store), writers_(writers), device_(dir), begin_ns_(NowNs()) {}

SpaceSample SpaceProbe::Take() const {
  SpaceSample sample;
  sample.disk_bytes = AllocatedBytes(dir_);
  if (store_ != nullptr) {
    const engine_race::StoreStats stats = store_->Stats();
    sample.log_bytes = stats.log_written_bytes;
    sample.index_bytes = stats.index_written_bytes;
    sample.moved_bytes = stats.reclaim_moved_bytes;
  }
  if (!device_.device().empty()) {
    sample.device_bytes = device_.Read().value_or(DeviceBytes()).written;
  }
  sample.write_count = writers_.count();
  sample.seconds = SecondsSince(begin_ns_);
  return sample;
}

Status Watch(const SpaceConfig& config, const std::string& label, const Overwriters& writers,
             const SpaceProbe& probe, const WatchEnd& end, SpaceSamples* samples) {
  constexpr double kShareOfLine = 0.1;
  samples->push_back(probe.Take());
  const SpaceSample first = samples->back();
  double printed = 0;
  for (;;) {
    const SpaceSample& last = samples->back();
    const double share = std::max((last.seconds - first.seconds) / end.seconds,
                                  static_cast<double>(last.write_count - first.write_count) /
                                      static_cast<double>(end.write_count));
    if (!label.empty() && share >= printed + kShareOfLine) {
      PrintProgress(label, *samples, std::min(share, 1.0), config.record_count());
      printed = share;
    }
    if (last.disk_bytes > config.most_store_bytes()) {
      return Status(Code::kFull, "the store takes " + std::to_string(last.disk_bytes) +
                                     " bytes of disk, more than the " +
                                     std::to_string(config.most_store_bytes()) + " of this run");
    }
    if (Interrupted()) return Status(Code::kIncomplete, "interrupted");
    if (writers.failed()) return Status::IOError("a write has failed");
    if (share >= 1) return Status::Ok();
    const double left = end.seconds - (last.seconds - first.seconds);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(config.sample_seconds, left)));
    samples->push_back(probe.Take());
  }
}

Status OverwriteTurn(const SpaceConfig& config, const SpaceRecords& records,
                     const KvStoreKind& kind, const KvOptions& options, uint32_t turn_number,
                     SpaceTurn* turn) {
  const uint64_t seed = MixAt(config.seed ^ kTurnStream, turn_number);
  const auto work = [&](const Overwriters& writers, const SpaceProbe& probe) {
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(
        Watch(config, "", writers, probe, {.seconds = config.ramp_seconds}, &samples));
    samples.clear();
    ENGINE_RACE_RETURN_IF_ERROR(
        Watch(config, "", writers, probe, {.seconds = config.seconds}, &samples));
    const SpaceSample& first = samples.front();
    const SpaceSample& last = samples.back();
    turn->rate = WriteRate(first, last);
    turn->disk_bytes = last.disk_bytes;
    turn->peak_disk_bytes = PeakDiskBytes(samples);
    turn->device_amplification = WriteAmplification(last.device_bytes - first.device_bytes,
                                                    last.write_count - first.write_count);
    return Status::Ok();
  };
  return WithWriters(config, records, kind, options, seed, work);
}

Status Precondition(const SpaceConfig& config, const std::string& label,
                    const SpaceRecords& records, const KvStoreKind& kind,
                    const KvOptions& options) {
  const WatchEnd end = {.seconds = config.precondition_seconds,
                        .write_count = records.count() * config.precondition_pass_count};
  SpaceSamples samples;
  return WithWriters(config, records, kind, options, config.seed ^ kPreconditionStream,
                     [&](const Overwriters& writers, const SpaceProbe& probe) {
                       return Watch(config, label, writers, probe, end, &samples);
                     });
}

Status FillNew(const SpaceConfig& config, const SpaceRecords& records, const KvStoreKind& kind,
               const KvOptions& options, double* rate) {
  return WithStore(kind, options, [&](KvStore* store) {
    return FillRecords(records, config.thread_count, PutInto(store), rate);
  });
}

}  // namespace harness
