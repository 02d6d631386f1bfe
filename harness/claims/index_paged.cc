// Reads whose index does not fit the memory, and latencies of single cold reads.
//
// The stores have real values on the disk. Hot values are off: uniform reads of a large store would
// not find them. Compared runs alternate in short rounds.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/memory.h"
#include "harness/claims/index_bench.h"
#include "harness/data/mix.h"
#include "harness/load/bare_loops.h"
#include "harness/load/read_loops.h"
#include "harness/load/store_runs.h"
#include "harness/measure/timed.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// Reads all files of a store from the device, past the page cache, which stays as it is.
Status ReadThrough(const std::string& dir) {
  constexpr uint32_t kReadBytes = uint32_t{1} << 20;
  return ReadFiles(dir, /*prefix=*/"", /*point=*/nullptr, kReadBytes, /*depth=*/8);
}

}  // namespace

// A store with values, and how it is opened for reads with an index that is paged.
class PagedStore {
 public:
  PagedStore(IndexBench* bench, uint64_t record_count)
      : bench_(*bench), shape_{bench->store_dir(), "", record_count, bench->seed_} {}

  // Writes the store and closes it with all of its index on disk.
  Status Fill() {
    StoreRuns runs(shape_);
    ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(DenseStoreOptions(), bench_.reader_count_));
    Options options = DenseStoreOptions();
    options.index_close_bytes = kAnyIndexBytes;
    return runs.Open(options);
  }

  // Options under which the index has memory for 1 / `divisor` of its blocks. `in_frames`: in
  // frames alone, none of it flat.
  Status Choose(uint32_t divisor, bool in_frames, Options* options) {
    *options = DenseStoreOptions();
    options->hot_value_bytes = 0;
    options->worker_count = 1;
    if (in_frames) options->index_memory_bytes = 0;
    const std::string name = std::to_string(shape_.record_count) + " records, memory for 1/" +
                             std::to_string(divisor) + " of the index";
    return bench_.ChooseBudget(
        name, IndexBlockBytes(shape_.record_count) / divisor,
        [&](uint64_t budget_bytes, uint64_t* index_bytes) {
          options->memory_budget_bytes = budget_bytes;
          StoreRuns runs(shape_);
          ENGINE_RACE_RETURN_IF_ERROR(runs.Open(*options));
          const StoreStats stats = runs.store()->Stats();
          *index_bytes = stats.frame_limit_bytes + (in_frames ? 0 : stats.index_memory_bytes);
          return Status::Ok();
        },
        &options->memory_budget_bytes);
  }

  // Notes the rate of uniform reads: by Read, or by MultiRead with `keys_per_call`.
  Status Read(const Options& options, uint32_t thread_count, uint32_t keys_per_call,
              const char* figure) {
    StoreRuns runs(shape_);
    ENGINE_RACE_RETURN_IF_ERROR(runs.Open(options));
    const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
    TimedPoint timed;
    // The first run warms the frames.
    for (const double seconds : {bench_.seconds_ / 2, bench_.seconds_()}) {
      ENGINE_RACE_RETURN_IF_ERROR(
          runs.ReadDrawn(draw, {thread_count, keys_per_call, seconds}, ++stream_, &timed));
    }
    bench_.rounds_.Note(figure, timed.RequestsPerSecond());
    return Status::Ok();
  }

  // Notes the rate of uniform reads of RocksDB with the same records.
  Status ReadRocks(RocksRecords* rocks, const char* figure) {
    const StoreRuns runs(shape_);
    const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
    const uint64_t seed = ++stream_;
    const auto get = [&](uint64_t key, std::string* value) { return rocks->Get(key, value); };
    TimedPoint point;
    ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
        bench_.reader_count_, bench_.seconds_,
        [&](uint32_t thread, TimedThread* self) {
          const uint64_t stream = MixAt(seed, thread);
          const auto key_at = [&](uint64_t i) {
            return runs.KeyAt(draw.IndexFrom(MixAt(stream, i)));
          };
          const auto more = [&](uint64_t i) {
            return i % kReadsPerClockLook != 0 || self->Running();
          };
          self->Start();
          return ReadOneByOne(get, runs.values(), key_at, more, &self->tally.request_count);
        },
        &point));
    bench_.rounds_.Note(figure, point.RequestsPerSecond());
    return Status::Ok();
  }

  const StoreShape& shape() const { return shape_; }

 private:
  IndexBench& bench_;
  const StoreShape shape_;
  uint64_t stream_ = 0;
};

Status IndexBench::MeasurePaged() {
  const uint64_t record_count = FittingRecords(paged_record_count_, FreeBytes(dir()));
  if (record_count == 0) return Status::Full("no disk space for records");
  if (record_count < paged_record_count_) {
    notes_["paged records, reduced to the free disk space"] = record_count;
  }
  PagedStore store(this, record_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  Options eighth;
  Options half;
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(8, true, &eighth));
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(2, false, &half));
  return rounds_.Run(
      {round_count_},
      {[&] { return ReadDevice(record_count, kDeviceRate); },
       [&] { return store.Read(eighth, reader_count_, 0, kPagedRate); },
       [&] { return store.Read(eighth, caller_count_, keys_per_call_, kPagedManyRate); },
       [&] { return store.Read(half, reader_count_, 0, kHalfPagedRate); }});
}

Status IndexBench::MeasurePagedVsRocks() {
  const uint64_t record_count = FittingRecords(rocks_record_count_, FreeBytes(dir()) / 2);
  if (record_count == 0) return Status::Full("no disk space for records");
  PagedStore store(this, record_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  Options options;
  ENGINE_RACE_RETURN_IF_ERROR(store.Choose(8, true, &options));
  const StoreRuns runs(store.shape());
  const std::string rocks_dir = store_dir() + "-rocks";
  std::unique_ptr<RocksRecords> rocks;
  ENGINE_RACE_RETURN_IF_ERROR(make_rocks_(
      rocks_dir,
      {record_count, options.memory_budget_bytes, [&](uint64_t i) { return runs.KeyAt(i); },
       [&](uint64_t key, char* value) { runs.values().Fill(key, 1, value); }},
      &rocks));
  // Each turn first reads its files through. Otherwise a cache of the machine's host would favour
  // the store that was written or read last.
  const auto read_ours = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(ReadThrough(store_dir()));
    ENGINE_RACE_RETURN_IF_ERROR(
        ReadDevice(record_count, "beside RocksDB: device: random reads a second"));
    return store.Read(options, reader_count_, 0, kOurRate);
  };
  const auto read_theirs = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(ReadThrough(rocks_dir));
    return store.ReadRocks(rocks.get(), kRocksRate);
  };
  // RocksDB's cache is filled before its first round.
  Status status = rounds_.Run({.count = round_count_, .warms_up = true}, {read_ours, read_theirs});
  // With what its cache holds by now.
  notes_["rocksdb"] = rocks->Describe();
  notes_["rocksdb"]["records"] = record_count;
  return status;
}

// Latencies of single reads of a cold store by many threads, beside bare preads of its value files.

namespace {

// Reads that begin later than this are the later ones, and all of a run's second half.
constexpr uint64_t kFirstNs = 1000000000;

// Has threads read by read(word, buffer), each with random words of its own. *first has the
// latencies of the first reads, and point->latency those of the later ones.
template <typename ReadFn>
Status TimeReads(uint32_t thread_count, double seconds, uint64_t seed, const ReadFn& read,
                 LatencyHistogram* first, TimedPoint* point) {
  std::vector<LatencyHistogram> first_of(thread_count);
  const uint64_t first_ns = std::min(kFirstNs, static_cast<uint64_t>(seconds * 0.5e9));
  const Status status = RunTimed(
      thread_count, seconds,
      [&](uint32_t thread, TimedThread* self) {
        alignas(kIoAlignment) char buffer[kValueSize];
        self->Start();
        const uint64_t begin_ns = NowNs();
        uint64_t now_ns = begin_ns;
        for (uint64_t i = 0; self->Running(now_ns); ++i) {
          ENGINE_RACE_RETURN_IF_ERROR(read(MixAt(MixAt(seed, thread), i), buffer));
          const uint64_t end_ns = NowNs();
          const bool is_first = now_ns - begin_ns < first_ns;
          (is_first ? first_of[thread] : self->tally.latency).Add(end_ns - now_ns);
          now_ns = end_ns;
          ++self->tally.request_count;
        }
        return Status::Ok();
      },
      point);
  for (const LatencyHistogram& of_thread : first_of) first->Merge(of_thread);
  return status;
}

}  // namespace

Status IndexBench::MeasureTails() {
  const StoreShape shape{store_dir(), dir(), tail_record_count_, seed_};
  const Options options = FilledOptions();
  StoreRuns runs(shape);
  ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(options, reader_count_));
  uint64_t seed = seed_;
  const auto note = [&](const LatencyHistogram& first, const TimedPoint& point, bool is_bare) {
    const auto tail_of = [](const LatencyHistogram& latency) {
      return static_cast<double>(latency.PercentileNs(0.999));
    };
    rounds_.Note(is_bare ? kBareFirstTail : kFirstTail, tail_of(first));
    rounds_.Note(is_bare ? kBareLaterTail : kLaterTail, tail_of(point.latency));
    const std::string side = is_bare ? "bare: " : "";
    rounds_.Note(side + "slowest read in the first second, ns",
                 static_cast<double>(first.max_ns()));
    rounds_.Note(side + "slowest later read, ns", static_cast<double>(point.latency.max_ns()));
    rounds_.Note(side + "P50 of a later read, ns",
                 static_cast<double>(point.latency.PercentileNs(0.5)));
    rounds_.Note(side + "reads a second", point.RequestsPerSecond());
    return Status::Ok();
  };
  const auto read_store = [&] {
    DropPageCache(dir());
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, store_dir(), &store));
    LatencyHistogram first;
    TimedPoint point;
    ENGINE_RACE_RETURN_IF_ERROR(TimeReads(
        reader_count_, tail_seconds_, ++seed,
        [&](uint64_t word, char* buffer) {
          return store->ReadInto(runs.KeyAt(AsBelow(word, shape.record_count)), buffer);
        },
        &first, &point));
    return note(first, point, false);
  };
  const auto read_bare = [&] {
    BareBlocks blocks;
    ENGINE_RACE_RETURN_IF_ERROR(blocks.Open(store_dir(), kValueFilePrefix, kValueSize));
    DropPageCache(dir());
    LatencyHistogram first;
    TimedPoint point;
    ENGINE_RACE_RETURN_IF_ERROR(TimeReads(
        reader_count_, tail_seconds_, ++seed,
        [&](uint64_t word, char* buffer) { return blocks.Read(word, buffer); }, &first, &point));
    return note(first, point, true);
  };
  return rounds_.Run({round_count_}, {read_bare, read_store});
}

}  // namespace engine_race::harness
