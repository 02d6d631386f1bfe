// Latencies of single reads of a cold store by many threads, beside bare preads of its value files.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/memory.h"
#include "harness/claims/index_bench.h"
#include "harness/data/mix.h"
#include "harness/load/file_reads.h"
#include "harness/load/store_runs.h"
#include "harness/measure/timed.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
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
