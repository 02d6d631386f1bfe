// The measured claims about the index: on disk and larger than memory, opened at once, and in
// memory.
#include "harness/claims/index_bench.h"

#include <algorithm>
#include <memory>

#include "engine_race/base/parallel.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_meter.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

namespace {

constexpr char kReopenAfterKill[] = "reopen_after_kill_ratio";
constexpr char kOpenWaits[] = "open_device_waits";
constexpr char kBillionBuild[] = "billion_build_over_device_read";
constexpr char kWriteAmplification[] = "index_write_amplification";
constexpr uint32_t kReadersBeside = 2;  // that read while others write

// The most disk space of a store that is filled without values, and of `write_count` writes to it.
uint64_t FilledBytes(uint64_t key_count, uint64_t write_count = 0) {
  constexpr uint64_t kBytesOfKey = kKeyEntryBytes + kIndexBytesPerRecord;
  return (key_count + write_count) * kBytesOfKey + StoreBytes(write_count);
}

}  // namespace

std::vector<BenchPart> IndexBench::Parts() {
  const uint64_t some_bytes = StoreBytes(0);
  return {
      {"reopening",
       {{"reopen_ratio", "<= 0.05",
         "from Open until the first Read has returned, of a store that was closed cleanly, over "
         "opening the same with its root removed until the index is built from the key logs",
         "reopen_s", "build_s"},
        {kReopenAfterKill, "<= 0.2",
         "the same after a writer of records past the root was killed, over building",
         "reopen_after_kill_s", "build_s"},
        {kOpenWaits, "<= 8",
         "how often the opening thread waits for the device or for other threads until the first "
         "Read of reopen_ratio has returned; the folders above the store were looked up before"}},
       By(&IndexBench::MeasureReopening),
       FilledBytes(key_count_, round_count_ * killed_write_count_)},
      {"growth",
       {{"reopen_growth", "<= 1.5",
         "the same as in reopen_ratio, of a store with many keys over one with fewer",
         "reopen_s, more keys", "reopen_s, fewer keys"}},
       By(&IndexBench::MeasureReopenGrowth),
       FilledBytes(small_key_count_ + large_key_count_)},
      // These two reduce their stores to the free disk space.
      {"paged",
       {{"paged_read_ratio", ">= 0.45",
         "uniform reads by many threads with frames for an eighth of the index, over fio's random "
         "reads of 4 KiB by 64 jobs from the same value files",
         kPagedRate, kDeviceRate},
        {"paged_multiread_ratio", ">= 0.47", "the same by MultiRead", kPagedManyRate, kDeviceRate},
        {"half_paged_read_ratio", ">= 0.58",
         "the same as in paged_read_ratio with memory for half of the index", kHalfPagedRate,
         kDeviceRate}},
       By(&IndexBench::MeasurePaged),
       some_bytes},
      {"rocksdb",
       {{"paged_vs_rocksdb", ">= 1.5",
         "reads as in paged_read_ratio over RocksDB's with a cache of the same memory", kOurRate,
         kRocksRate}},
       By(&IndexBench::MeasurePagedVsRocks),
       {some_bytes, false, make_rocks_ ? "" : kNoRocks}},
      {"billion",
       {{"billion_keys_rss_mib", "<= 2200",
         "the most memory that was resident in a process with all these keys"},
        {"billion_keys_right", "= 1.0",
         "the part of lookups that were right: present and absent keys, by Read and by slot"},
        {kBillionBuild, "<= 4",
         "building their index over reading their key logs at the device's rate"}},
       By(&IndexBench::MeasureBillion),
       FilledBytes(billion_key_count_) + device_read_bytes_},
      {"resident",
       {{"resident_lookup_ns_ratio", "<= 1.2",
         "a lookup of an index in memory over one in flat arrays; the worst of three kinds of "
         "keys"},
        {"resident_batch_ratio", "<= 1.1", "the same in batches of 64"}},
       By(&IndexBench::MeasureResident),
       FilledBytes(key_count_)},
      {"arrays",
       {{"lookup_speedup", ">= 4.0", "std::lower_bound over a lookup", "lower_bound_ns",
         "lookup_ns"},
        {"rebuild_speedup", ">= 2.7", "std::sort over a build in memory", "std_sort_s",
         "rebuild_s"},
        {"open_ratio", "<= 3.0",
         "opening a store without a root until its index is built, over reading its key logs at the"
         " device's rate",
         "open_s", "device_read_s"},
        {"peak_rss_64m_mib", "<= 1500", "the most memory that was resident in that process"}},
       By(&IndexBench::MeasureArrays),
       FilledBytes(2 * key_count_)},
      {"stalls",
       {{"writer_stall_ratio", "<= 1.2",
         "P99.99 of a write beside merges, with a paged index over one with a flat index",
         "paged index: P99.99 of a write, ns", "flat index: P99.99 of a write, ns"}},
       By(&IndexBench::MeasureWriterStalls),
       FilledBytes(stalled_key_count_, 2 * round_count_ * stall_write_count_)},
      {"tails",
       {{"read_p999_first_second", "<= 2.0",
         "P99.9 of reads by many threads in the first second of a cold store, over that of bare "
         "preads of its value files",
         kFirstTail, kBareFirstTail},
        {"read_p999", "<= 1.3",
         "P99.9 of those reads after the first second, over that of bare preads", kLaterTail,
         kBareLaterTail}},
       By(&IndexBench::MeasureTails),
       StoreBytes(tail_record_count_)},
      {"amplification",
       {{kWriteAmplification, "<= 0.05",
         "bytes of index written over bytes of values written, memory for half of the index"},
        {"index_disk_bytes_per_key", "<= 18",
         "the disk space of the index files of a closed store"}},
       By(&IndexBench::MeasureWriteAmplification),
       FilledBytes(amplified_key_count_, amplified_write_count_)},
      {"race",
       {{"race_cost", "<= 0.05",
         "the time of a race that writes the index to disk over one that does not, less 1",
         "race_s, index on disk", "race_s, no index on disk", RatioForm::kGrowth}},
       By(&IndexBench::MeasureRaceCost),
       FilledBytes(0, reader_count_ * race_records_)}};
}

Options IndexBench::FilledOptions() const {
  Options options = QuietOptions();
  options.bucket_count = bucket_count_;
  options.file_count = std::min(options.file_count, options.bucket_count);
  options.build_thread_count = thread_count_ != 0 ? thread_count_() : AvailableCpuCount();
  return options;
}

Status IndexBench::ChooseBudget(const std::string& name, uint64_t wanted_bytes,
                                const IndexBytesFn& bytes_under, uint64_t* budget_bytes) {
  IndexBudget found;
  ENGINE_RACE_RETURN_IF_ERROR(FindIndexBudget(wanted_bytes, bytes_under, &found));
  if (!found.Has(wanted_bytes)) {
    Complain(name + ": memory of " + std::to_string(found.index_bytes) +
             " bytes for the index, not " + std::to_string(wanted_bytes));
  }
  notes_[name] = {{"wanted_bytes", wanted_bytes},
                  {"got_bytes", found.index_bytes},
                  {"memory_budget_bytes", found.budget_bytes}};
  *budget_bytes = found.budget_bytes;
  return Status::Ok();
}

Status IndexBench::MeasureReopening() {
  FilledStore store = StoreOf(key_count_);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  rounds_.Note("closed store: index_disk_bytes_per_key", store.DiskBytesPerKey());
  const auto reopen = [&](const char* figure, bool counts_waits) {
    nlohmann::json cost;
    ENGINE_RACE_RETURN_IF_ERROR(store.Reopen(&cost));
    rounds_.Note(figure, cost.at("seconds"));
    if (counts_waits) rounds_.Note(kOpenWaits, cost.at("wait_count"));
    return Status::Ok();
  };
  const auto build = [&] {
    nlohmann::json cost;
    ENGINE_RACE_RETURN_IF_ERROR(store.Rebuild(&cost));
    rounds_.Note("build_s", cost.at("seconds"));
    return Status::Ok();
  };
  std::vector<Turn> turns = {build, [&] { return reopen("reopen_s", /*counts_waits=*/true); }};
  if (Wants(kReopenAfterKill)) {
    turns.emplace_back([&] {
      ENGINE_RACE_RETURN_IF_ERROR(store.KillWriter(killed_write_count_));
      return reopen("reopen_after_kill_s", /*counts_waits=*/false);
    });
  }
  return rounds_.Run({round_count_}, turns);
}

Status IndexBench::MeasureReopenGrowth() {
  FilledStore stores[] = {StoreOf(small_key_count_, "-small"), StoreOf(large_key_count_)};
  const char* const figures[] = {"reopen_s, fewer keys", "reopen_s, more keys"};
  for (FilledStore& store : stores) ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  const auto reopen = [&](size_t i) {
    nlohmann::json cost;
    ENGINE_RACE_RETURN_IF_ERROR(stores[i].Reopen(&cost));
    rounds_.Note(figures[i], cost.at("seconds"));
    return Status::Ok();
  };
  return rounds_.Run({round_count_}, {[&] { return reopen(0); }, [&] { return reopen(1); }});
}

Status IndexBench::MeasureRaceCost() {
  RaceMeter meter(is_smoke(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
  RaceConfig with;
  with.thread_count = reader_count_;
  with.records_per_thread = race_records_;
  with.seed = seed_;
  RaceConfig without = with;
  without.writes_index = false;
  return rounds_.Run({round_count_},
                     {[&] { return meter.Whole(with, "race_s, index on disk"); },
                      [&] { return meter.Whole(without, "race_s, no index on disk"); }});
}

Status IndexBench::MeasureBillion() {
  FioRunner fio(dir());
  const FioResult device = fio.BestScan(device_read_bytes_);
  fio.RemoveFile();
  if (!device.ok) Complain(std::string(kBillionBuild) + ": " + device.error);
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(FilledOptions(), store_dir(), billion_key_count_, seed_));
  const nlohmann::json order = {{"store_dir", store_dir()},
                                {"bucket_count", bucket_count_()},
                                {"memory_budget_bytes", memory_budget_bytes_()},
                                {"key_count", billion_key_count_()},
                                {"seed", seed_()},
                                {"builds", true},
                                {"lookups", billion_lookup_count_()},
                                {"threads", reader_count_()}};
  double rss_mib = 0;
  double right = 0;
  double lookups = 0;
  for (const char* work : {kBillionReadsWork, kBillionSlotsWork}) {
    DropPageCache(store_dir());
    nlohmann::json answer;
    ENGINE_RACE_RETURN_IF_ERROR(RunOwnChild(work, order, &answer));
    notes_["billion"][work] = answer;
    rss_mib = std::max(rss_mib, answer.at("peak_rss_bytes").get<double>() / (1 << 20));
    right += answer.at("right").get<double>();
    lookups += answer.at("lookups").get<double>();
  }
  const double build_seconds = notes_["billion"][kBillionReadsWork]["seconds"];
  const double key_count = static_cast<double>(billion_key_count_());
  rounds_.Note("billion keys: build_s", build_seconds);
  if (device.ok) {
    const double entry_bytes = key_count * static_cast<double>(kKeyEntryBytes);
    rounds_.NoteRatio(kBillionBuild, build_seconds, entry_bytes / device.bytes_per_second);
  }
  rounds_.Note("billion_keys_rss_mib", rss_mib);
  rounds_.Note("billion_keys_right", right / lookups);
  rounds_.Note("billion keys: index_disk_bytes_per_key",
               static_cast<double>(IndexDiskBytes(store_dir())) / key_count);
  return Status::Ok();
}

Status IndexBench::MeasureWriterStalls() {
  FilledStore store = StoreOf(stalled_key_count_);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  const auto stall = [&](uint64_t index_memory_bytes, const std::string& kind) {
    Options options = store.options();
    options.index_memory_bytes = index_memory_bytes;
    std::unique_ptr<Store> opened;
    IndexLoadResult result;
    ENGINE_RACE_RETURN_IF_ERROR(store.Open(options, &opened));
    ENGINE_RACE_RETURN_IF_ERROR(store.Load(opened.get(), stall_write_count_, 0, &result));
    rounds_.Note(kind + ": P99.99 of a write, ns",
                 static_cast<double>(result.write_latency.PercentileNs(0.9999)));
    rounds_.Note(kind + ": writes a second",
                 static_cast<double>(stall_write_count_()) / result.seconds);
    return Status::Ok();
  };
  const uint64_t flat = kAutoBytes;
  return rounds_.Run({round_count_}, {[&] { return stall(0, "paged index"); },
                                      [&] { return stall(flat, "flat index"); }});
}

Status IndexBench::MeasureWriteAmplification() {
  FilledStore store = StoreOf(amplified_key_count_);
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill());
  rounds_.Note("index_disk_bytes_per_key", store.DiskBytesPerKey());
  if (!Wants(kWriteAmplification)) return Status::Ok();
  Options options = store.options();
  ENGINE_RACE_RETURN_IF_ERROR(ChooseBudget(
      "amplification", IndexBlockBytes(amplified_key_count_) / 2,
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
  ENGINE_RACE_RETURN_IF_ERROR(
      store.Load(opened.get(), amplified_write_count_, kReadersBeside, &result));
  const uint64_t index_bytes = opened->Stats().index_written_bytes - written_before;
  const double writes = static_cast<double>(amplified_write_count_());
  rounds_.Note(kWriteAmplification, static_cast<double>(index_bytes) / (writes * kValueBytes));
  rounds_.Note("amplification: writes a second", writes / result.seconds);
  rounds_.Note("amplification: reads a second beside them",
               static_cast<double>(result.read_count) / result.seconds);
  opened.reset();
  rounds_.Note("amplification: index_disk_bytes_per_key afterwards", store.DiskBytesPerKey());
  return Status::Ok();
}

std::unique_ptr<Bench> MakeIndexBench() { return std::make_unique<IndexBench>(); }

}  // namespace engine_race::harness
