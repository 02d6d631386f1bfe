// The measured claims about the index: on disk and larger than memory, opened at once, and in
// memory.
//
// Each part makes its stores, measures its claims and removes the stores.
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/index_arrays.h"
#include "harness/claims/index_bench_config.h"
#include "harness/claims/index_billion.h"
#include "harness/claims/index_paged.h"
#include "harness/claims/index_race.h"
#include "harness/claims/index_reopen.h"
#include "harness/claims/index_resident.h"
#include "harness/claims/index_writes.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr ClaimTarget kTargets[] = {
    {kReopen, "<= 0.05",
     "from Open until the first Read has returned, of a store that was closed cleanly, over the "
     "same with its root removed, so that the index is built from the key logs"},
    {kReopenAfterKill, "<= 0.2",
     "the same after a writer of records past the root was killed, over building"},
    {kReopenGrowth, "<= 1.5",
     "the same as in reopen_ratio, of a store with many keys over one with fewer"},
    {kPagedRead, ">= 0.45",
     "uniform reads by many threads with frames for an eighth of the index, over fio's random "
     "reads of 4 KiB by 64 jobs from the same value files"},
    {kPagedMultiRead, ">= 0.47", "the same by MultiRead"},
    {kHalfPagedRead, ">= 0.58",
     "the same as in paged_read_ratio with memory for half of the index"},
    {kPagedVsRocks, ">= 1.5",
     "reads as in paged_read_ratio over RocksDB's with a cache of the same memory"},
    {kBillionRss, "<= 2200", "the most memory that was resident in a process with all these keys"},
    {kBillionRight, "= 1.0",
     "the part of lookups that were right: present and absent keys, by Read and by slot"},
    {kBillionBuild, "<= 4",
     "building their index over reading their key logs at the device's rate"},
    {kResidentLookup, "<= 1.2",
     "a lookup of an index in memory over one in flat arrays; the worst of three kinds of keys"},
    {kResidentBatch, "<= 1.1", "the same in batches of 64"},
    {kLookupSpeedup, ">= 4.0", "std::lower_bound over a lookup"},
    {kRebuildSpeedup, ">= 2.7", "std::sort over a build in memory"},
    {kOpenRatio, "<= 3.0",
     "opening a store without a root over reading its key logs at the device's rate"},
    {kPeakRss, "<= 1500", "the most memory that was resident in that process"},
    {kWriterStall, "<= 1.2",
     "P99.99 of a write beside merges, with a paged index over one with a flat index"},
    {kWriteAmplification, "<= 0.05",
     "bytes of index written over bytes of values written, memory for half of the index"},
    {kDiskBytesPerKey, "<= 18", "the disk space of the index files of a closed store"},
    {kRaceCost, "<= 0.05",
     "the time of a race that writes the index to disk over one that does not, less 1"}};

// The most disk space of a store that is filled without values, and of `write_count` writes to it.
uint64_t FilledBytes(uint64_t key_count, uint64_t write_count = 0) {
  // With the key entry.
  constexpr uint64_t kKeyBytes = 16 + kIndexBytesPerRecord;
  return (key_count + write_count) * kKeyBytes + StoreBytes(write_count);
}

class IndexBench final : public Bench {
 public:
  IndexBench()
      : Bench("index", "the index on disk and in memory, beside the device and RocksDB", kTargets) {
    config_.make_rocks = RocksRecordsMaker();
  }

  std::vector<Setting> Settings() override {
    IndexBenchConfig& c = config_;
    return {
        {"buckets", &c.bucket_count, 64, "--buckets", "of stores that are filled without values"},
        {"", &c.thread_count, kSame, "--threads", "that build; 0: one per available CPU", true},
        {"rounds", &c.round_count, 1, "--rounds", "of each comparison"},
        {"seconds", &c.seconds, 0.05, "--seconds", "of each timed run"},
        {"seed", &c.seed, kSame, "--seed", "", true},
        {"keys", &c.key_count, 100000, "--keys", "of reopening, lookups and builds"},
        {"small_keys", &c.small_key_count, 20000, "--small-keys", "of reopen_growth"},
        {"large_keys", &c.large_key_count, 100000, "--large-keys", "of reopen_growth"},
        {"billion_keys", &c.billion_key_count, 200000, "--billion-keys",
         "of the claims about a billion keys"},
        {"stalled_keys", &c.stalled_key_count, 20000, "--stalled-keys", "of writer_stall_ratio"},
        {"amplified_keys", &c.amplified_key_count, 50000, "--amplified-keys",
         "of index_write_amplification"},
        {"killed_writes", &c.killed_write_count, 1000, "--killed-writes",
         "before the writer is killed"},
        {"stall_writes", &c.stall_write_count, 2000, "--stall-writes",
         "of each run of writer_stall_ratio"},
        {"amplified_writes", &c.amplified_write_count, 4000, "--amplified-writes",
         "of index_write_amplification"},
        {"lookups", &c.lookup_count, 20000},
        {"billion_lookups", &c.billion_lookup_count, 2000},
        {"paged_records", &c.paged_record_count, 8000, "--paged-records",
         "with values; reduced to what the disk has room for"},
        {"rocks_records", &c.rocks_record_count, 8000, "--rocks-records",
         "of paged_vs_rocksdb, with values"},
        {"race_records_per_thread", &c.race_records_per_thread, 50, "--race-records",
         "of each thread of a race"},
        {"memory_budget_bytes", &c.memory_budget_bytes, engine_race::kMinMemoryBudgetBytes},
        {"", &c.device_read_bytes, 4 << 20},
        {"readers", &c.reader_count, 8},
        {"writers", &c.writer_count},
        {"multiread_callers", &c.caller_count},
        {"multiread_keys", &c.keys_per_call, 100}};
  }

 private:
  std::vector<BenchPart> Parts() override {
    const IndexBenchConfig& c = config_;
    const uint64_t some_bytes = StoreBytes(0);
    const auto part = [this](Status (*measure)(const IndexBenchRun& run)) {
      return [this, measure] { return Measure(measure); };
    };
    return {
        {"arrays",
         {kLookupSpeedup, kRebuildSpeedup, kOpenRatio, kPeakRss},
         part(MeasureArrays),
         FilledBytes(2 * c.key_count)},
        {"resident",
         {kResidentLookup, kResidentBatch},
         part(MeasureResident),
         FilledBytes(c.key_count)},
        {"reopening",
         {kReopen, kReopenAfterKill},
         part(MeasureReopening),
         FilledBytes(c.key_count, c.round_count * c.killed_write_count)},
        {"growth",
         {kReopenGrowth},
         part(MeasureReopenGrowth),
         FilledBytes(c.small_key_count + c.large_key_count)},
        {"billion",
         {kBillionRss, kBillionRight, kBillionBuild},
         part(MeasureBillion),
         FilledBytes(c.billion_key_count) + c.device_read_bytes},
        {"amplification",
         {kWriteAmplification, kDiskBytesPerKey},
         part(MeasureWriteAmplification),
         FilledBytes(c.amplified_key_count, c.amplified_write_count)},
        {"stalls",
         {kWriterStall},
         part(MeasureWriterStalls),
         FilledBytes(c.stalled_key_count, 2 * c.round_count * c.stall_write_count)},
        {"race",
         {kRaceCost},
         part(MeasureRaceCost),
         FilledBytes(0, c.reader_count * c.race_records_per_thread)},
        // These reduce their stores to the free disk space.
        {"rocksdb",
         {kPagedVsRocks},
         part(MeasurePagedVsRocks),
         some_bytes,
         false,
         c.make_rocks ? "" : kNoRocks},
        {"paged", {kPagedRead, kPagedMultiRead, kHalfPagedRead}, part(MeasurePaged), some_bytes}};
  }

  Status Measure(Status (*measure)(const IndexBenchRun& run)) {
    config_.dir = dir();
    config_.wanted = wanted();
    config_.is_smoke = is_smoke();
    const IndexBenchRun run{config_, &rounds_, &about_, &errors_};
    const Status status = measure(run);
    std::error_code ignored;
    for (const char* suffix : {"", "-small", "-rocks"}) {
      std::filesystem::remove_all(run.store_dir() + suffix, ignored);
    }
    // The next part does not pay for it.
    sync();
    return status;
  }

  IndexBenchConfig config_;
};

}  // namespace

std::unique_ptr<Bench> MakeIndexBench() { return std::make_unique<IndexBench>(); }

}  // namespace harness
