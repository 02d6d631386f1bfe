#include "harness/claims/space_stores.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/claims/space_loads.h"
#include "harness/load/store_runs.h"
#include "harness/measure/timed.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

SpaceShape SpaceShape::Below(const std::string& name) const {
  SpaceShape below = *this;
  below.dir += "/" + name;
  return below;
}

Status FillStore(const SpaceShape& shape, const SpaceRecords& records, Store* store) {
  return WriteRecords(PutInto(store), records.keys(), records.values(), shape.thread_count);
}

namespace {

// Far more than are written, so that hardly any is written twice.
constexpr uint64_t kManyRecords = uint64_t{1} << 40;
constexpr uint64_t kSmallBudgetBytes = uint64_t{32} << 20;

Status WriteInSmallMemory(const nlohmann::json& order, nlohmann::json* answer) {
  const std::string cgroup = order.at("cgroup");
  if (!cgroup.empty()) ENGINE_RACE_RETURN_IF_ERROR(MemoryCgroup::Join(cgroup));
  SpaceShape shape = {.dir = order.at("store_dir"), .options = QuietOptions()};
  shape.options.memory_budget_bytes = kSmallBudgetBytes;
  if (order.at("is_written")) shape.options.staging_mode = StagingMode::kWritten;
  const WatchShape watch = {.seconds = order.at("seconds"), .write_count = order.at("write_count")};
  const uint64_t seed = order.at("seed");
  return WithOpenStore(shape, [&](Store* store) {
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(OverwriteAndWatch({PutInto(store), shape.dir, store},
                                                  SpaceRecords(kManyRecords, seed), {.seed = seed},
                                                  {watch}, &samples));
    (*answer)["writes_per_second"] = WriteRate(samples.front(), samples.back());
    return Status::Ok();
  });
}

Status WriteSmallStores(const nlohmann::json& order, nlohmann::json* answer) {
  RaiseFileLimit();
  // A kernel that refuses leaves the peak of before, which is not far.
  static_cast<void>(ResetPeakRss());
  const std::string parent_dir = order.at("parent_dir");
  const SpaceRecords records(order.at("record_count"), order.at("seed"));
  const uint64_t memory_bytes = PeakRssBytes();
  const uint64_t descriptor_count = OpenFileCount();
  std::vector<std::unique_ptr<Store>> stores(order.at("store_count").get<size_t>());
  const uint64_t began_ns = NowNs();
  for (size_t i = 0; i < stores.size(); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Store::Open(QuietOptions(), parent_dir + "/" + std::to_string(i), &stores[i]));
    ENGINE_RACE_RETURN_IF_ERROR(
        WriteRecords(PutInto(stores[i].get()), records.keys(), records.values(), 1));
  }
  const double open_seconds = SecondsSince(began_ns);
  const uint64_t open_disk_bytes = AllocatedBytes(parent_dir);
  (*answer)["descriptors"] = OpenFileCount() - descriptor_count;
  const uint64_t closing_ns = NowNs();
  stores.clear();
  (*answer)["closing_seconds"] = SecondsSince(closing_ns);
  (*answer)["seconds"] = open_seconds + SecondsSince(closing_ns);
  (*answer)["memory_bytes"] = PeakRssBytes() - memory_bytes;
  const uint64_t closed_disk_bytes = AllocatedBytes(parent_dir);
  (*answer)["closed_disk_bytes"] = closed_disk_bytes;
  (*answer)["disk_bytes"] = std::max(open_disk_bytes, closed_disk_bytes);
  return Status::Ok();
}

}  // namespace

ChildWorks SpaceWorks() {
  return {{kSmallMemoryWork, WriteInSmallMemory}, {kSmallStoresWork, WriteSmallStores}};
}

namespace {

// Staging and what else does not depend on the records.
constexpr uint64_t kFixedBytes = uint64_t{64} << 20;
constexpr uint64_t kKeptShare = 10;
constexpr uint64_t kSmallBucket = 250;
// Stores that are overwritten have one record in so many: overwriting takes longest.
constexpr uint64_t kOverwrittenShare = 8;

double SpaceOf(const std::string& dir, uint64_t live_count) {
  return static_cast<double>(AllocatedBytes(dir)) /
         static_cast<double>(live_count * kValueSize + kFixedBytes);
}

double ApparentOverUsed(const std::string& dir) {
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return static_cast<double>(bytes) / static_cast<double>(AllocatedBytes(dir));
}

// Opens a new store, and removes it after `work`.
template <typename Work>
Status WithNewStore(const SpaceShape& shape, const Work& work) {
  const Status worked = WithOpenStore(shape, work);
  std::filesystem::remove_all(shape.dir);
  return worked;
}

// Calls `work` with each number below `count`.
template <typename Work>
Status InThreads(uint32_t thread_count, uint64_t count, const Work& work) {
  const auto body = [&](uint32_t thread, TimedThread* self) {
    self->Start();
    for (uint64_t i = thread; i < count && self->Running(); i += thread_count) {
      ENGINE_RACE_RETURN_IF_ERROR(work(i));
    }
    return Status::Ok();
  };
  return RunTimed(thread_count, kNoLimitSeconds, body);
}

Status Idle(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (Interrupted()) return InterruptedStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Status::Ok();
}

// Notes `figure` + "idle" and `figure` + "compacted".
Status MeasureDeletions(const SpaceShape& shape, KeyShape keys, const std::string& figure,
                        ClaimRounds* rounds) {
  const SpaceRecords records(shape.record_count, shape.seed, keys);
  return WithNewStore(shape, [&](Store* store) {
    ENGINE_RACE_RETURN_IF_ERROR(FillStore(shape, records, store));
    ENGINE_RACE_RETURN_IF_ERROR(InThreads(shape.thread_count, records.count(), [&](uint64_t i) {
      if (i % kKeptShare == 0) return Status::Ok();
      return store->Delete(KeyBytes(records.KeyAt(i)).view());
    }));
    const uint64_t live_count = (records.count() + kKeptShare - 1) / kKeptShare;
    ENGINE_RACE_RETURN_IF_ERROR(Idle(shape.idle_seconds));
    rounds->Note(figure + "idle", SpaceOf(shape.dir, live_count));
    ENGINE_RACE_RETURN_IF_ERROR(store->Compact());
    rounds->Note(figure + "compacted", SpaceOf(shape.dir, live_count));
    return Status::Ok();
  });
}

// With `apparent` it also notes that.
Status MeasureOverwritten(const SpaceShape& shape, KeyShape keys, const std::string& figure,
                          ClaimRounds* rounds, const std::string& apparent = {}) {
  const SpaceRecords records(shape.record_count, shape.seed, keys);
  return WithNewStore(shape, [&](Store* store) {
    ENGINE_RACE_RETURN_IF_ERROR(FillStore(shape, records, store));
    WatchShape watch = {.live_count = records.count(), .label = figure};
    watch.write_count = records.count() * shape.pass_count;
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(OverwriteAndWatch(
        {PutInto(store), shape.dir, store}, records,
        {.thread_count = shape.thread_count, .seed = shape.seed}, {watch}, &samples));
    rounds->Note(figure, static_cast<double>(PeakDiskBytes(samples)) /
                             static_cast<double>(records.count() * kValueSize + kFixedBytes));
    if (!apparent.empty()) rounds->Note(apparent, ApparentOverUsed(shape.dir));
    return Status::Ok();
  });
}

Status MeasureWindow(const SpaceShape& shape, const std::string& figure, ClaimRounds* rounds) {
  const uint64_t window = shape.record_count;
  const SpaceRecords records(window * (shape.pass_count + 1), shape.seed, KeyShape::kSequential);
  const auto key_of = [&](uint64_t i) { return KeyBytes(records.KeyAt(i)); };
  return WithNewStore(shape, [&](Store* store) {
    const auto put = PutInto(store);
    double most = 0;
    for (uint32_t pass = 0; pass <= shape.pass_count; ++pass) {
      const uint64_t first = pass * window;
      ENGINE_RACE_RETURN_IF_ERROR(InThreads(shape.thread_count, window, [&](uint64_t i) {
        alignas(64) char value[kValueSize];
        const uint64_t key = records.KeyAt(first + i);
        records.values().Fill(key, first + i, value);
        ENGINE_RACE_RETURN_IF_ERROR(put(key, value));
        return pass == 0 ? Status::Ok() : store->Delete(key_of(first + i - window).view());
      }));
      if (pass * 2 >= shape.pass_count) most = std::max(most, SpaceOf(shape.dir, window));
    }
    rounds->Note(figure, most);
    return Status::Ok();
  });
}

}  // namespace

Status MeasureSpaceShapes(const SpaceShape& shape, ClaimRounds* rounds) {
  const std::string uniform = "deleted, uniform, ";
  const std::string dense = "deleted, sequential, ";
  ENGINE_RACE_RETURN_IF_ERROR(MeasureDeletions(shape, KeyShape::kUniform, uniform, rounds));
  ENGINE_RACE_RETURN_IF_ERROR(MeasureDeletions(shape, KeyShape::kSequential, dense, rounds));
  for (const std::string when : {"idle", "compacted"}) {
    rounds->Note("deleted_space_" + when,
                 std::max(rounds->Median(uniform + when), rounds->Median(dense + when)));
  }
  SpaceShape overwritten = shape;
  overwritten.record_count /= kOverwrittenShare;
  ENGINE_RACE_RETURN_IF_ERROR(
      MeasureOverwritten(overwritten, KeyShape::kSequential, "one_bucket_space", rounds));
  ENGINE_RACE_RETURN_IF_ERROR(MeasureWindow(overwritten, "fifo_space", rounds));
  SpaceShape small = overwritten;
  small.record_count =
      std::min(overwritten.record_count, kSmallBucket * shape.options.bucket_count);
  return MeasureOverwritten(small, KeyShape::kUniform, "small_bucket_space", rounds,
                            "apparent_over_used");
}

}  // namespace engine_race::harness
