// Parts of the bench about space: how much of its device a store that is overwritten uses, and what
// stores take in little memory and with few records.
#include <algorithm>
#include <filesystem>

#include "harness/claims/space_promises.h"
#include "harness/claims/space_stores.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/fio_runner.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace fs = std::filesystem;

namespace {

// A child that does not end by itself is killed after so long beyond its time.
constexpr double kPatienceSeconds = 60;

}  // namespace

// fio repeats the mix of the last turn of overwriting.
Status SpacePromises::MeasureDevice() {
  const SpaceShape shape = PromiseShape().Below("overwritten");
  const DeviceIo device(dir());
  // Other programs do not count there, nor does what the kernel writes for this one.
  const DeviceIo process("/proc");
  FioRunner fio(dir());
  FioMix mix = {.file_bytes = promise_bytes_};
  if (device.device().empty()) {
    return Missed(Status::NotSupported(dir() + " has no block device"));
  }
  ENGINE_RACE_RETURN_IF_ERROR(MakeAged(shape));
  const auto overwrite = [&](Store* store) {
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(Overwrite(shape, {.seconds = ramp_seconds_}, store, &samples));
    const StoreStats stats_before = store->Stats();
    const DeviceBytes before = device.Read().value_or(DeviceBytes());
    const DeviceBytes own_before = process.Read().value_or(DeviceBytes());
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(Overwrite(shape, {.seconds = seconds_}, store, &samples));
    const double seconds = SecondsSince(began_ns);
    const DeviceBytes moved = device.Read().value_or(DeviceBytes()) - before;
    const DeviceBytes own = process.Read().value_or(DeviceBytes()) - own_before;
    const StoreStats stats = store->Stats();
    const uint64_t bytes = moved.read + moved.written;
    const uint64_t request_count = moved.read_count + moved.write_count;
    const uint64_t write_count = samples.back().write_count;
    mix.read_bytes = moved.read / std::max(moved.read_count, uint64_t{1});
    mix.write_bytes = moved.written / std::max(moved.write_count, uint64_t{1});
    mix.read_percent =
        static_cast<uint32_t>(100 * moved.read_count / std::max(request_count, uint64_t{1}));
    rounds_.Note("overwrite_device_bytes", Amplification(bytes, write_count));
    rounds_.Note("overwriting, read from the device, share of a value",
                 Amplification(moved.read, write_count));
    rounds_.Note("overwriting, device bytes by the process's count, share of a value",
                 Amplification(own.read + own.written, write_count));
    rounds_.Note(
        "overwriting, read by reclaim, share of a value",
        Amplification(stats.reclaim_read_bytes - stats_before.reclaim_read_bytes, write_count));
    rounds_.Note(
        "overwriting, written to the logs, share of a value",
        Amplification(stats.log_written_bytes - stats_before.log_written_bytes, write_count));
    rounds_.Note("overwriting, bytes of a read", static_cast<double>(mix.read_bytes));
    rounds_.Note("overwriting, bytes of a write", static_cast<double>(mix.write_bytes));
    rounds_.Note("overwriting, reads of all requests, %", mix.read_percent);
    rounds_.Note(kOverwriteDeviceRate, static_cast<double>(bytes) * 1e-6 / seconds);
    return Status::Ok();
  };
  const auto repeat = [&] {
    const FioResult result = fio.RandomMix(mix, seconds_);
    if (!result.ok) return Missed(Status::IOError("fio: " + result.error));
    rounds_.Note(kFioMixRate, result.bytes_per_second * 1e-6);
    return Status::Ok();
  };
  return rounds_.Run({promise_round_count_},
                     {[&] { return WithOpenStore(shape, overwrite); }, repeat});
}

Status SpacePromises::MeasureSmallMemory() {
  const auto turn = [&](bool is_written, const char* figure) {
    MemoryCgroup group;
    const Status limited = group.Create(memory_limit_bytes_);
    if (!limited.ok()) return Missed(limited);
    const std::string store_dir = dir() + "/store";
    const nlohmann::json order = {
        {"store_dir", store_dir},   {"cgroup", group.path()},
        {"is_written", is_written}, {"seconds", limited_seconds_()},
        {"seed", seed_()},          {"write_count", limited_write_count_()}};
    nlohmann::json answer;
    ENGINE_RACE_RETURN_IF_ERROR(
        RunOwnChild(kSmallMemoryWork, order, &answer, limited_seconds_ + kPatienceSeconds));
    rounds_.Note(figure, answer.at("writes_per_second"));
    fs::remove_all(store_dir);
    return Status::Ok();
  };
  return rounds_.Run({promise_round_count_}, {[&] { return turn(false, kDefaultStagingRate); },
                                              [&] { return turn(true, kWrittenStagingRate); }});
}

Status SpacePromises::MeasureSmallStores() {
  const auto take = [&](const char* name, uint64_t store_count, nlohmann::json* answer) {
    return RunOwnChild(kSmallStoresWork,
                       {{"parent_dir", dir() + "/" + name},
                        {"store_count", store_count},
                        {"record_count", small_record_count_()},
                        {"seed", seed_()}},
                       answer);
  };
  nlohmann::json one;
  nlohmann::json many;
  ENGINE_RACE_RETURN_IF_ERROR(take("one", 1, &one));
  ENGINE_RACE_RETURN_IF_ERROR(take("many", small_store_count_, &many));
  const auto note = [&](const char* figure, const nlohmann::json& value, double unit) {
    rounds_.Note(figure, value.get<double>() * unit);
  };
  note("hundred_records_disk_mb", one.at("disk_bytes"), 1e-6);
  note("hundred_records_memory_mb", one.at("memory_bytes"), 1e-6);
  note("hundred_records_descriptors", one.at("descriptors"), 1);
  note("hundred_stores_disk_gb", many.at("disk_bytes"), 1e-9);
  note("hundred_stores_seconds", many.at("seconds"), 1);
  note("a hundred records, closed, MB", one.at("closed_disk_bytes"), 1e-6);
  note("a hundred records, s", one.at("seconds"), 1);
  note("a hundred stores, closing, s", many.at("closing_seconds"), 1);
  note("a hundred stores, descriptors", many.at("descriptors"), 1);
  note("a hundred stores, memory, MB", many.at("memory_bytes"), 1e-6);
  return Status::Ok();
}

}  // namespace engine_race::harness
