#include "harness/claims/index_paged.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/claims/index_budget.h"
#include "harness/claims/index_files.h"
#include "harness/data/mix.h"
#include "harness/load/dense_store.h"
#include "harness/load/drawn_reads.h"
#include "harness/load/read_loops.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/timed.h"
#include "harness/system/disk.h"
#include "harness/system/fio_runner.h"
#include "harness/system/read_through.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Status;
using engine_race::StoreStats;

// A run warms the frames for this part of its own time.
constexpr double kWarmUpShare = 0.5;

// A store with values, and how it is opened for reads with an index that is paged.
class PagedStore {
 public:
  PagedStore(const IndexBenchRun& run, uint64_t record_count)
      : run_(run), shape_{run.store_dir(), "", record_count, run.config.seed} {}

  // Writes the store and closes it with all of its index on disk.
  Status Fill() {
    StoreRuns runs(shape_);
    if (!runs.Write(DenseStoreOptions(), run_.config.reader_count).ok()) {
      return Status::IOError(runs.failure());
    }
    Options options = DenseStoreOptions();
    options.index_close_bytes = kAnyIndexBytes;
    std::unique_ptr<DrawnReads> unused;
    return DrawnReads::Open(shape_, options, &unused);
  }

  // Options under which the index has memory for 1 / `divisor` of its blocks. `in_frames`: in
  // frames alone, none of it flat.
  Status Choose(uint32_t divisor, bool in_frames, Options* options) {
    const uint64_t wanted_bytes = IndexBlockBytes(shape_.record_count) / divisor;
    *options = DenseStoreOptions();
    options->hot_value_bytes = 0;
    options->worker_count = run_.config.worker_count;
    if (in_frames) options->index_memory_bytes = 0;
    const std::string name = std::to_string(shape_.record_count) + " records, memory for 1/" +
                             std::to_string(divisor) + " of the index";
    return ChooseIndexBudget(
        run_, name, wanted_bytes,
        [&](uint64_t budget_bytes, uint64_t* index_bytes) {
          options->memory_budget_bytes = budget_bytes;
          std::unique_ptr<DrawnReads> reads;
          ENGINE_RACE_RETURN_IF_ERROR(DrawnReads::Open(shape_, *options, &reads));
          const StoreStats stats = reads->store()->Stats();
          *index_bytes = stats.frame_limit_bytes + (in_frames ? 0 : stats.index_memory_bytes);
          return Status::Ok();
        },
        &options->memory_budget_bytes);
  }

  // The rate of uniform reads: by Read, or by MultiRead with `keys_per_call`.
  Status Read(const Options& options, uint32_t thread_count, uint32_t keys_per_call, double* rate) {
    std::unique_ptr<DrawnReads> reads;
    ENGINE_RACE_RETURN_IF_ERROR(DrawnReads::Open(shape_, options, &reads));
    const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
    ReadShape shape{thread_count, keys_per_call, run_.config.seconds * kWarmUpShare};
    TimedRun timed;
    for (int pass = 0; pass < 2; ++pass) {
      ENGINE_RACE_RETURN_IF_ERROR(reads->Run(draw, shape, ++stream_, &timed));
      shape.seconds = run_.config.seconds;
    }
    *rate = timed.rate();
    return Status::Ok();
  }

  uint64_t record_count() const { return shape_.record_count; }
  const StoreShape& shape() const { return shape_; }

 private:
  const IndexBenchRun& run_;
  const StoreShape shape_;
  uint64_t stream_ = 0;
};

// The rate of random reads of 4 KiB from the store's value files, by fio.
Status ReadDevice(const IndexBenchConfig& config, uint64_t record_count, FioRunner* fio,
                  double* rate) {
  const FioResult result = fio->RandomReadOf(
      DenseStoreFileNames(), DenseStoreFileBytes(record_count), "psync", config.seconds);
  *rate = result.ops_per_second;
  return result.ok || config.is_smoke ? Status::Ok() : Status::IOError("fio: " + result.error);
}

// The rate of uniform reads of RocksDB's records, whose keys and values are those of `runs`.
Status ReadRocks(const IndexBenchConfig& config, const StoreRuns& runs, uint64_t record_count,
                 uint64_t stream, RocksRecords* rocks, double* rate) {
  TimedPoint point;
  const Status status = RunTimed(
      config.reader_count, config.seconds,
      [&](uint32_t thread, TimedThread* self) {
        std::string value;
        self->Start();
        uint64_t* const count = &self->tally.request_count;
        for (; *count % kReadsPerClockLook != 0 || self->Running(); ++*count) {
          const uint64_t word = MixAt(MixAt(stream, thread), *count);
          const uint64_t key = runs.KeyAt(AsBelow(word, record_count));
          ENGINE_RACE_RETURN_IF_ERROR(CheckRead(rocks->Get(key, &value), runs.values(), key, value,
                                                *count % kReadsPerValueLook == 0));
        }
        return Status::Ok();
      },
      &point);
  *rate = point.RequestsPerSecond();
  return status;
}

}  // namespace

uint64_t FittingRecords(uint64_t asked, uint64_t free_bytes) {
  const uint64_t usable = free_bytes / 10 * 9;
  const uint64_t fixed = StoreBytes(0);
  if (usable <= fixed) return 0;
  return std::min(asked, (usable - fixed) / (StoreBytes(1) - fixed + kIndexBytesPerRecord));
}

Status MeasurePaged(const IndexBenchRun& run) {
  const IndexBenchConfig& config = run.config;
  const uint64_t record_count = FittingRecords(config.paged_record_count, FreeBytes(config.dir));
  if (record_count == 0) return Status::Full("no disk space for records");
  if (record_count < config.paged_record_count) {
    (*run.about)["paged records, reduced to the free disk space"] = record_count;
  }
  PagedStore store(run, record_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  Options eighth;
  Options half;
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(8, true, &eighth));
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(2, false, &half));
  FioRunner fio(run.store_dir());
  double device_rate = 0;
  double read = 0;
  double many = 0;
  double half_read = 0;
  const std::vector<Turn> turns = {
      [&] { return ReadDevice(config, record_count, &fio, &device_rate); },
      [&] { return store.Read(eighth, config.reader_count, 0, &read); },
      [&] { return store.Read(eighth, config.caller_count, config.keys_per_call, &many); },
      [&] { return store.Read(half, config.reader_count, 0, &half_read); }};
  return AlternatingRounds(config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("device: random reads a second", device_rate);
    run.rounds->Note("paged reads a second", read);
    run.rounds->Note("paged reads a second, MultiRead", many);
    run.rounds->Note("paged reads a second, half in memory", half_read);
    run.rounds->NoteRatio(kPagedRead, read, device_rate);
    run.rounds->NoteRatio(kPagedMultiRead, many, device_rate);
    run.rounds->NoteRatio(kHalfPagedRead, half_read, device_rate);
  });
}

Status MeasurePagedVsRocks(const IndexBenchRun& run) {
  const IndexBenchConfig& config = run.config;
  const uint64_t record_count =
      FittingRecords(config.rocks_record_count, FreeBytes(config.dir) / 2);
  if (record_count == 0) return Status::Full("no disk space for records");
  PagedStore store(run, record_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  Options options;
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(8, true, &options));
  const StoreRuns runs(store.shape());
  std::unique_ptr<RocksRecords> rocks;
  ENGINE_RACE_RETURN_IF_ERROR(config.make_rocks(
      run.store_dir() + "-rocks",
      {record_count, options.memory_budget_bytes, [&](uint64_t i) { return runs.KeyAt(i); },
       [&](uint64_t key, char* value) { runs.values().Fill(key, 1, value); }},
      &rocks));
  double our_rate = 0;
  double their_rate = 0;
  uint64_t stream = 0;
  const auto read_rocks = [&] {
    return ReadRocks(config, runs, record_count, ++stream, rocks.get(), &their_rate);
  };
  // Fills the cache.
  ENGINE_RACE_RETURN_IF_ERROR(read_rocks());
  FioRunner fio(run.store_dir());
  double device_rate = 0;
  // Each turn first reads its files through. Otherwise a cache of the machine's host would favour
  // the store that was written or read last.
  uint64_t passed_bytes = 0;
  const std::vector<Turn> turns = {
      [&] {
        ENGINE_RACE_RETURN_IF_ERROR(ReadThrough(run.store_dir(), &passed_bytes));
        ENGINE_RACE_RETURN_IF_ERROR(ReadDevice(config, record_count, &fio, &device_rate));
        return store.Read(options, config.reader_count, 0, &our_rate);
      },
      [&] {
        ENGINE_RACE_RETURN_IF_ERROR(ReadThrough(run.store_dir() + "-rocks", &passed_bytes));
        return read_rocks();
      }};
  const Status status = AlternatingRounds(config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("beside RocksDB: device: random reads a second", device_rate);
    run.rounds->Note("beside RocksDB: paged reads a second", our_rate);
    run.rounds->Note("RocksDB: reads a second", their_rate);
    run.rounds->NoteRatio(kPagedVsRocks, our_rate, their_rate);
  });
  (*run.about)["rocksdb"] = rocks->Describe();
  (*run.about)["rocksdb"]["records"] = record_count;
  return status;
}

}  // namespace harness
