#include "harness/claims/index_writes.h"

#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/claims/index_budget.h"
#include "harness/claims/index_child.h"
#include "harness/claims/index_files.h"
#include "harness/claims/index_load.h"
#include "harness/load/fill_keys.h"
#include "harness/load/index_keys.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;
using engine_race::StoreStats;

// A store that FillKeyLogs has made, and loads of writes on it.
class WrittenStore {
 public:
  WrittenStore(const IndexBenchRun& run, uint64_t key_count)
      : run_(run),
        options_(FilledStoreOptions(run.config)),
        keys_(options_, key_count, run.config.seed) {
    load_.writer_count = run.config.writer_count;
    load_.seed = run.config.seed;
  }

  // Fills the store, and closes it with all of its index on disk.
  Status Fill() {
    ENGINE_RACE_RETURN_IF_ERROR(
        FillKeyLogs(options_, run_.store_dir(), keys_.key_count(), run_.config.seed));
    OpenOrder order{run_.store_dir()};
    order.first_key = keys_.PresentKey(0);
    OpenAnswer unused;
    return OpenInChild(order, &unused);
  }

  // Opens it, with its index ready.
  Status Open(const Options& options, std::unique_ptr<Store>* store) const {
    std::string value;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, run_.store_dir(), store));
    return (*store)->Read(KeyBytesOf(keys_.PresentKey(0)), &value);
  }

  // Writes `write_count` records beside `reader_count` readers.
  Status Load(Store* store, uint64_t write_count, uint32_t reader_count, IndexLoadResult* result) {
    load_.write_count = write_count;
    load_.reader_count = reader_count;
    ENGINE_RACE_RETURN_IF_ERROR(RunIndexLoad(store, keys_, load_, result));
    load_.first_new += load_.new_key_count();
    ++load_.seed;
    return Status::Ok();
  }

  double DiskBytesPerKey() const {
    return static_cast<double>(IndexDiskBytes(run_.store_dir())) /
           static_cast<double>(keys_.key_count() + load_.first_new);
  }

  const Options& options() const { return options_; }
  uint64_t key_count() const { return keys_.key_count(); }

 private:
  const IndexBenchRun& run_;
  const Options options_;
  const IndexKeys keys_;
  IndexLoad load_;
};

}  // namespace

Status MeasureWriterStalls(const IndexBenchRun& run) {
  WrittenStore store(run, run.config.stalled_key_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  const auto stall_with = [&](uint64_t index_memory_bytes, double* p9999_ns, double* rate) {
    Options options = store.options();
    options.index_memory_bytes = index_memory_bytes;
    std::unique_ptr<Store> opened;
    ENGINE_RACE_RETURN_IF_ERROR(store.Open(options, &opened));
    IndexLoadResult result;
    ENGINE_RACE_RETURN_IF_ERROR(store.Load(opened.get(), run.config.stall_write_count, 0, &result));
    *p9999_ns = static_cast<double>(result.write_latency.PercentileNs(0.9999));
    *rate = static_cast<double>(run.config.stall_write_count) / result.seconds;
    return Status::Ok();
  };
  double paged_ns = 0;
  double paged_rate = 0;
  double flat_ns = 0;
  double flat_rate = 0;
  const std::vector<Turn> turns = {
      [&] { return stall_with(0, &paged_ns, &paged_rate); },
      [&] { return stall_with(engine_race::kAutoIndexMemoryBytes, &flat_ns, &flat_rate); }};
  return AlternatingRounds(run.config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("paged index: P99.99 of a write, ns", paged_ns);
    run.rounds->Note("paged index: writes a second", paged_rate);
    run.rounds->Note("flat index: P99.99 of a write, ns", flat_ns);
    run.rounds->Note("flat index: writes a second", flat_rate);
    run.rounds->NoteRatio(kWriterStall, paged_ns, flat_ns);
  });
}

Status MeasureWriteAmplification(const IndexBenchRun& run) {
  WrittenStore store(run, run.config.amplified_key_count);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  run.rounds->Note(kDiskBytesPerKey, store.DiskBytesPerKey());
  if (!run.Wants(kWriteAmplification)) return Status::Ok();
  Options options = store.options();
  const uint64_t wanted_bytes = IndexBlockBytes(store.key_count()) / 2;
  ENGINE_RACE_RETURN_IF_ERROR(ChooseIndexBudget(
      run, "amplification", wanted_bytes,
      [&](uint64_t budget_bytes, uint64_t* index_bytes) {
        options.memory_budget_bytes = budget_bytes;
        std::unique_ptr<Store> opened;
        ENGINE_RACE_RETURN_IF_ERROR(store.Open(options, &opened));
        const StoreStats stats = opened->Stats();
        *index_bytes = stats.index_memory_bytes + stats.frame_limit_bytes;
        return Status::Ok();
      },
      &options.memory_budget_bytes));
  std::unique_ptr<Store> opened;
  ENGINE_RACE_RETURN_IF_ERROR(store.Open(options, &opened));
  const uint64_t written_before = opened->Stats().index_written_bytes;
  IndexLoadResult result;
  ENGINE_RACE_RETURN_IF_ERROR(store.Load(opened.get(), run.config.amplified_write_count,
                                         run.config.beside_reader_count, &result));
  const uint64_t index_bytes = opened->Stats().index_written_bytes - written_before;
  const double value_bytes =
      static_cast<double>(run.config.amplified_write_count) * engine_race::kValueBytes;
  run.rounds->Note(kWriteAmplification, static_cast<double>(index_bytes) / value_bytes);
  run.rounds->Note("amplification: writes a second",
                   static_cast<double>(run.config.amplified_write_count) / result.seconds);
  run.rounds->Note("amplification: reads a second beside them",
                   static_cast<double>(result.read_count) / result.seconds);
  opened.reset();
  run.rounds->Note("amplification: index_disk_bytes_per_key afterwards", store.DiskBytesPerKey());
  return Status::Ok();
}

}  // namespace harness
