#include "harness/claims/space_promises.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "harness/claims/index_stores.h"
#include "harness/data/mix.h"
#include "harness/load/store_runs.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace fs = std::filesystem;

namespace {

constexpr char kAgedOpening[] = "overwritten store, until the first read, s";
constexpr char kFreshOpening[] = "never overwritten store, until the first read, s";
constexpr char kAgedCheckpoint[] = "overwritten store, checkpoint, s";
constexpr char kFreshCheckpoint[] = "never overwritten store, checkpoint, s";
constexpr char kAgedRange[] = "overwritten store, range, MB/s";
constexpr char kFreshRange[] = "never overwritten store, range, MB/s";
constexpr char kFullBackup[] = "full backup, bytes";
constexpr char kIncrement[] = "incremental backup, bytes";
constexpr char kLargeBuckets[] = "large buckets, CPU us an overwritten record";
constexpr char kSmallBuckets[] = "small buckets, CPU us an overwritten record";

// A checkpoint shares blocks, but has some of its own.
constexpr uint64_t kCheckpointBytes = uint64_t{1} << 30;
// A store of few records takes this at most.
constexpr uint64_t kSmallStoreBytes = uint64_t{64} << 20;
constexpr uint64_t kOverwriteStream = 0x61676564;
constexpr uint64_t kPercentStep = 100;
constexpr uint64_t kSomeShare = 8;

SpaceRecords RecordsOf(const SpaceShape& shape) { return {shape.record_count, shape.seed}; }

// The first read builds the index, so that closing can write it.
Status ReadOne(const SpaceShape& shape, Store* store) {
  alignas(64) char value[kValueSize];
  return store->ReadInto(RecordsOf(shape).KeyAt(0), value);
}

}  // namespace

Options SpacePromises::OptionsOf(Reclaim reclaim) const {
  Options options = QuietOptions();
  options.memory_budget_bytes = memory_budget_bytes_;
  options.reclaim = reclaim;
  return options;
}

SpaceShape SpacePromises::PromiseShape() const {
  return {.dir = dir(),
          .options = OptionsOf(Reclaim::kBackground),
          .record_count = promise_bytes_ / kValueSize,
          .thread_count = thread_count_,
          .pass_count = precondition_passes_,
          .seed = seed_};
}

std::vector<BenchPart> SpacePromises::PromiseParts() {
  const uint64_t one_bytes = MostStoreBytes(promise_bytes_);
  const char* const why_no_root = ::geteuid() == 0 ? "" : "a limit on memory needs root";
  return {{"reopen",
           {{"reopen_after_overwrites", "<= 1.5", "", kAgedOpening, kFreshOpening}},
           By(&SpacePromises::MeasureReopening),
           2 * one_bytes},
          {"checkpoint",
           {{"checkpoint_after_overwrites", "<= 1.5", "", kAgedCheckpoint, kFreshCheckpoint}},
           By(&SpacePromises::MeasureCheckpoints),
           {2 * one_bytes + kCheckpointBytes, false, LoopDisk::WhyNoXfs()}},
          {"increment",
           {{"increment_after_one_percent", "<= 0.02", "", kIncrement, kFullBackup}},
           By(&SpacePromises::MeasureIncrement),
           2 * one_bytes},
          {"range",
           {{"range_after_overwrites", ">= 0.85", "", kAgedRange, kFreshRange}},
           By(&SpacePromises::MeasureRanges),
           2 * one_bytes},
          {"dense",
           {{"dense_vs_spread_write", ">= 0.9", "", "dense keys, writing, MB/s",
             "spread keys, writing, MB/s"},
            {"dense_vs_spread_read", ">= 0.9", "", "dense keys, reads a second",
             "spread keys, reads a second"},
            {"dense_vs_spread_range", ">= 0.9", "", "dense keys, range, MB/s",
             "spread keys, range, MB/s"}},
           By(&SpacePromises::MeasureDenseKeys),
           one_bytes},
          {"buckets",
           {{"reclaim_cpu_growth", "<= 1.3", "", kLargeBuckets, kSmallBuckets}},
           By(&SpacePromises::MeasureBuckets),
           one_bytes},
          {"device",
           {{"overwrite_device_bytes", "<= 1.35"},
            {"overwrite_vs_fio", ">= 0.85", "", kOverwriteDeviceRate, kFioMixRate}},
           By(&SpacePromises::MeasureDevice),
           one_bytes + promise_bytes_},
          {"memory",
           {{"writes_in_128_mb", ">= 0.8", "", kDefaultStagingRate, kWrittenStagingRate}},
           By(&SpacePromises::MeasureSmallMemory),
           {StoreBytes(limited_write_count_), false, why_no_root}},
          {"hundred",
           {{"hundred_records_disk_mb", "<= 8"},
            {"hundred_records_memory_mb", "<= 16"},
            {"hundred_records_descriptors", "<= 40"},
            {"hundred_stores_disk_gb", "<= 1"},
            {"hundred_stores_seconds", "<= 5"}},
           By(&SpacePromises::MeasureSmallStores),
           small_store_count_ * kSmallStoreBytes}};
}

Status SpacePromises::Overwrite(const SpaceShape& shape, const WatchShape& watch, Store* store,
                                SpaceSamples* samples) {
  const uint64_t seed = MixAt(shape.seed ^ kOverwriteStream, overwrite_count_++);
  return OverwriteAndWatch({PutInto(store), shape.dir, store}, RecordsOf(shape),
                           {.thread_count = shape.thread_count, .seed = seed}, {watch}, samples);
}

Status SpacePromises::OverwriteSome(const SpaceShape& shape, Store* store) {
  SpaceSamples unused;
  return Overwrite(shape, {.write_count = shape.record_count / kSomeShare}, store, &unused);
}

Status SpacePromises::MakeAged(const SpaceShape& shape) {
  return WithOpenStore(shape, [&](Store* store) {
    ENGINE_RACE_RETURN_IF_ERROR(FillStore(shape, RecordsOf(shape), store));
    const WatchShape watch = {.write_count = shape.record_count * shape.pass_count,
                              .live_count = shape.record_count,
                              .label = "before the turns"};
    SpaceSamples unused;
    ENGINE_RACE_RETURN_IF_ERROR(Overwrite(shape, watch, store, &unused));
    return ReadOne(shape, store);
  });
}

Status SpacePromises::MakePair(const SpaceShape& shape, Pair* pair) {
  *pair = {shape.Below("overwritten"), shape.Below("fresh")};
  ENGINE_RACE_RETURN_IF_ERROR(WithOpenStore(pair->fresh, [&](Store* store) {
    ENGINE_RACE_RETURN_IF_ERROR(FillStore(shape, RecordsOf(shape), store));
    return ReadOne(shape, store);
  }));
  return MakeAged(pair->aged);
}

// Each turn has a process of its own, whose page cache was dropped.
Status SpacePromises::MeasureReopening() {
  Pair pair;
  ENGINE_RACE_RETURN_IF_ERROR(MakePair(PromiseShape(), &pair));
  const auto reopen = [&](const SpaceShape& shape, const char* figure) {
    DropPageCache(shape.dir);
    const nlohmann::json order = {{"store_dir", shape.dir},
                                  {"first_key", RecordsOf(shape).KeyAt(0)},
                                  {"more_keys", nlohmann::json::array()}};
    nlohmann::json answer;
    ENGINE_RACE_RETURN_IF_ERROR(RunOwnChild(kOpenWork, order, &answer));
    rounds_.Note(figure, answer.at("seconds"));
    return Status::Ok();
  };
  const auto reopen_aged = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(WithOpenStore(pair.aged, [&](Store* store) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadOne(pair.aged, store));
      return OverwriteSome(pair.aged, store);
    }));
    return reopen(pair.aged, kAgedOpening);
  };
  return rounds_.Run({promise_round_count_},
                     {reopen_aged, [&] { return reopen(pair.fresh, kFreshOpening); }});
}

Status SpacePromises::MeasureCheckpoints() {
  LoopDisk disk;
  const uint64_t bytes = std::max(2 * MostStoreBytes(promise_bytes_), uint64_t{320} << 20);
  const Status mounted = disk.Mount(kMakeXfs, dir(), bytes);
  if (!mounted.ok()) return Missed(mounted);
  SpaceShape shape = PromiseShape();
  shape.dir = disk.path();
  Pair pair;
  ENGINE_RACE_RETURN_IF_ERROR(MakePair(shape, &pair));
  // What was written before is durable by then: its flush is no part of the time.
  const auto copy = [&](Store* store, const char* figure) {
    ENGINE_RACE_RETURN_IF_ERROR(store->Sync());
    const std::string dir = shape.dir + "/copy";
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(store->Checkpoint(dir));
    rounds_.Note(figure, SecondsSince(began_ns));
    fs::remove_all(dir);
    SyncFileSystem(shape.dir);
    return Status::Ok();
  };
  const auto copy_aged = [&] {
    return WithOpenStore(pair.aged, [&](Store* store) {
      ENGINE_RACE_RETURN_IF_ERROR(OverwriteSome(pair.aged, store));
      return copy(store, kAgedCheckpoint);
    });
  };
  const auto copy_fresh = [&] {
    return WithOpenStore(pair.fresh, [&](Store* store) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadOne(pair.fresh, store));
      return copy(store, kFreshCheckpoint);
    });
  };
  return rounds_.Run({promise_round_count_}, {copy_aged, copy_fresh});
}

Status SpacePromises::MeasureIncrement() {
  const SpaceShape shape = PromiseShape().Below("overwritten");
  ENGINE_RACE_RETURN_IF_ERROR(MakeAged(shape));
  const auto back_up = [&](Store* store) {
    const std::string full = dir() + "/full";
    BackupReport report;
    ENGINE_RACE_RETURN_IF_ERROR(store->Backup(full, {}, &report));
    rounds_.Note(kFullBackup, static_cast<double>(report.size_bytes));
    const SpaceRecords records = RecordsOf(shape);
    ENGINE_RACE_RETURN_IF_ERROR(WriteRecords(PutInto(store), records.keys(), records.values(),
                                             shape.thread_count, nullptr, kPercentStep));
    BackupOptions since;
    since.since = full;
    ENGINE_RACE_RETURN_IF_ERROR(store->Backup(dir() + "/increment", since, &report));
    rounds_.Note(kIncrement, static_cast<double>(report.size_bytes));
    rounds_.Note("incremental backup, values", static_cast<double>(report.value_count));
    return Status::Ok();
  };
  return rounds_.Run({1}, {[&] { return WithOpenStore(shape, back_up); }});
}

Status SpacePromises::MeasureRanges() {
  Pair pair;
  ENGINE_RACE_RETURN_IF_ERROR(MakePair(PromiseShape(), &pair));
  const auto range = [&](const SpaceShape& shape, const char* figure) {
    StoreRuns runs({shape.dir, shape.dir, shape.record_count, shape.seed});
    rounds_.Note(figure, Megabytes(runs.Range(shape.options, 1).RequestsPerSecond()));
    return runs.status();
  };
  return rounds_.Run({promise_round_count_}, {[&] { return range(pair.aged, kAgedRange); },
                                              [&] { return range(pair.fresh, kFreshRange); }});
}

Status SpacePromises::MeasureDenseKeys() {
  const auto turn = [&](KeyShape keys, const std::string& name) {
    const SpaceShape shape = PromiseShape().Below("store");
    StoreRuns runs({shape.dir, dir(), shape.record_count, shape.seed, keys});
    const TimedPoint written = runs.Write(shape.options, shape.thread_count);
    const TimedPoint read = runs.Read(shape.options, shape.thread_count, seconds_);
    const TimedPoint ranged = runs.Range(shape.options, 1);
    rounds_.Note(name + ", writing, MB/s", Megabytes(written.RequestsPerSecond()));
    rounds_.Note(name + ", reads a second", read.RequestsPerSecond());
    rounds_.Note(name + ", range, MB/s", Megabytes(ranged.RequestsPerSecond()));
    runs.Remove(shape.options);
    // The next turn does not pay for it.
    SyncFileSystem(dir());
    return runs.status();
  };
  return rounds_.Run({promise_round_count_},
                     {[&] { return turn(KeyShape::kSequential, "dense keys"); },
                      [&] { return turn(KeyShape::kUniform, "spread keys"); }});
}

// The CPU time is that of a pass over a store in its steady state.
Status SpacePromises::MeasureBuckets() {
  const auto turn = [&](uint64_t bucket_records, const char* figure) {
    SpaceShape shape = PromiseShape().Below("store");
    shape.options.bucket_count = static_cast<uint32_t>(std::bit_floor(
        std::clamp<uint64_t>(shape.record_count / bucket_records, 1, kMaxBucketCount)));
    shape.options.file_count = std::min(shape.options.file_count, shape.options.bucket_count);
    ENGINE_RACE_RETURN_IF_ERROR(MakeAged(shape));
    const Status status = WithOpenStore(shape, [&](Store* store) {
      SpaceSamples samples;
      ENGINE_RACE_RETURN_IF_ERROR(ReadOne(shape, store));
      ENGINE_RACE_RETURN_IF_ERROR(OverwriteSome(shape, store));
      const double began_cpu_s = CpuSeconds();
      ENGINE_RACE_RETURN_IF_ERROR(
          Overwrite(shape, {.write_count = shape.record_count}, store, &samples));
      const double cpu_s = CpuSeconds() - began_cpu_s;
      rounds_.Note(figure, cpu_s * 1e6 / static_cast<double>(samples.back().write_count));
      return Status::Ok();
    });
    fs::remove_all(shape.dir);
    SyncFileSystem(dir());
    return status;
  };
  return rounds_.Run({promise_round_count_},
                     {[&] { return turn(large_bucket_records_, kLargeBuckets); },
                      [&] { return turn(small_bucket_records_, kSmallBuckets); }});
}

}  // namespace engine_race::harness
