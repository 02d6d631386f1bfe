#include "harness/claims/bench_index.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "harness/claims/bench_end.h"
#include "harness/claims/index_arrays.h"
#include "harness/claims/index_billion.h"
#include "harness/claims/index_paged.h"
#include "harness/claims/index_race.h"
#include "harness/claims/index_reopen.h"
#include "harness/claims/index_resident.h"
#include "harness/claims/index_writes.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr ClaimTarget kTargets[] = {
    {kReopen, "<= 0.05"},        {kReopenAfterKill, "<= 0.2"}, {kReopenGrowth, "<= 1.5"},
    {kPagedRead, ">= 0.45"},     {kPagedMultiRead, ">= 0.47"}, {kHalfPagedRead, ">= 0.58"},
    {kPagedVsRocks, ">= 1.5"},   {kBillionRss, "<= 2200"},     {kBillionRight, "= 1.0"},
    {kBillionBuild, "<= 4"},     {kResidentLookup, "<= 1.2"},  {kResidentBatch, "<= 1.1"},
    {kLookupSpeedup, ">= 4.0"},  {kRebuildSpeedup, ">= 2.7"},  {kOpenRatio, "<= 3.0"},
    {kPeakRss, "<= 1500"},       {kWriterStall, "<= 1.2"},     {kWriteAmplification, "<= 0.05"},
    {kDiskBytesPerKey, "<= 18"}, {kRaceCost, "<= 0.05"}};

// The meanings of the names in the JSON.
constexpr std::pair<const char*, const char*> kWhat[] = {
    {kReopen,
     "from Open until the first Read has returned, of a store that was closed cleanly, over the "
     "same with its root removed, so that the index is built from the key logs"},
    {kReopenAfterKill,
     "the same after a writer of records past the root was killed, over building"},
    {kReopenGrowth, "the same as in reopen_ratio, of a store with many keys over one with fewer"},
    {kPagedRead,
     "uniform reads by many threads with frames for an eighth of the index, over fio's random "
     "reads of 4 KiB by 64 jobs from the same value files"},
    {kPagedMultiRead, "the same by MultiRead"},
    {kHalfPagedRead, "the same as in paged_read_ratio with memory for half of the index"},
    {kPagedVsRocks, "reads as in paged_read_ratio over RocksDB's with a cache of the same memory"},
    {kBillionRss, "the most memory that was resident in a process with all these keys"},
    {kBillionRight,
     "the part of lookups that were right: present and absent keys, by Read and by slot"},
    {kBillionBuild, "building their index over reading their key logs at the device's rate"},
    {kResidentLookup,
     "a lookup of an index in memory over one in flat arrays; the worst of three kinds of keys"},
    {kResidentBatch, "the same in batches of 64"},
    {kLookupSpeedup, "std::lower_bound over a lookup"},
    {kRebuildSpeedup, "std::sort over a build in memory"},
    {kOpenRatio, "opening a store without a root over reading its key logs at the device's rate"},
    {kPeakRss, "the most memory that was resident in that process"},
    {kWriterStall,
     "P99.99 of a write beside merges, with a paged index over one with a flat index"},
    {kWriteAmplification,
     "bytes of index written over bytes of values written, memory for half of the index"},
    {kDiskBytesPerKey, "the disk space of the index files of a closed store"},
    {kRaceCost, "the time of a race that writes the index to disk over one that does not, less 1"}};

// The most disk space of a store that is filled without values, and of so many writes to it.
uint64_t FilledBytes(uint64_t key_count, uint64_t write_count = 0) {
  // With the key entry.
  constexpr uint64_t kKeyBytes = 16 + kIndexBytesPerRecord;
  return (key_count + write_count) * kKeyBytes + StoreBytes(write_count);
}

struct Part {
  const char* name;
  std::vector<const char*> claims;
  Status (*measure)(const IndexBenchRun& run);
  // The disk space without which the part is not begun.
  uint64_t (*disk_bytes)(const IndexBenchConfig& config);
};

// These parts reduce their stores to the free disk space.
uint64_t AnyDiskBytes(const IndexBenchConfig&) { return StoreBytes(0); }

const std::vector<Part>& Parts() {
  using Config = IndexBenchConfig;
  static const std::vector<Part> parts = {
      {"arrays",
       {kLookupSpeedup, kRebuildSpeedup, kOpenRatio, kPeakRss},
       MeasureArrays,
       [](const Config& c) { return FilledBytes(2 * c.key_count); }},
      {"resident",
       {kResidentLookup, kResidentBatch},
       MeasureResident,
       [](const Config& c) { return FilledBytes(c.key_count); }},
      {"reopening",
       {kReopen, kReopenAfterKill},
       MeasureReopening,
       [](const Config& c) {
         return FilledBytes(c.key_count, c.round_count * c.killed_write_count);
       }},
      {"growth",
       {kReopenGrowth},
       MeasureReopenGrowth,
       [](const Config& c) { return FilledBytes(c.small_key_count + c.large_key_count); }},
      {"billion",
       {kBillionRss, kBillionRight, kBillionBuild},
       MeasureBillion,
       [](const Config& c) { return FilledBytes(c.billion_key_count) + c.device_read_bytes; }},
      {"amplification",
       {kWriteAmplification, kDiskBytesPerKey},
       MeasureWriteAmplification,
       [](const Config& c) { return FilledBytes(c.amplified_key_count, c.amplified_write_count); }},
      {"stalls",
       {kWriterStall},
       MeasureWriterStalls,
       [](const Config& c) {
         return FilledBytes(c.stalled_key_count, 2 * c.round_count * c.stall_write_count);
       }},
      {"race",
       {kRaceCost},
       MeasureRaceCost,
       [](const Config& c) { return FilledBytes(0, c.reader_count * c.race_records_per_thread); }},
      {"RocksDB", {kPagedVsRocks}, MeasurePagedVsRocks, AnyDiskBytes},
      {"paged", {kPagedRead, kPagedMultiRead, kHalfPagedRead}, MeasurePaged, AnyDiskBytes}};
  return parts;
}

}  // namespace

std::vector<std::string> IndexClaimNames() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

BenchIndex::BenchIndex(const IndexBenchConfig& config) : config_(config), rounds_(kTargets) {}

bool BenchIndex::Run(const std::function<void()>& after_part) {
  const IndexBenchRun run{config_, &rounds_, &about_, &errors_};
  for (const Part& part : Parts()) {
    const bool is_wanted = std::any_of(part.claims.begin(), part.claims.end(),
                                       [&](const char* claim) { return run.Wants(claim); });
    if (!is_wanted || Interrupted()) continue;
    std::fprintf(stderr, "bench_index: %s\n", part.name);
    const uint64_t began_ns = NowNs();
    RemoveStores();
    const std::string no_room = WhyNoRoom(config_.dir, part.disk_bytes(config_));
    const Status status = no_room.empty() ? part.measure(run) : Status::Full(no_room);
    RemoveStores();
    about_["seconds"][part.name] = SecondsSince(began_ns);
    if (!status.ok() && !Interrupted()) {
      errors_.push_back(std::string(part.name) + ": " + status.ToString());
    }
    after_part();
  }
  if (Interrupted()) errors_.emplace_back("interrupted");
  for (const std::string& name : config_.wanted) {
    if (!config_.is_smoke && !rounds_.Claims().contains(name)) {
      errors_.push_back("not measured: " + name);
    }
  }
  return errors_.empty();
}

void BenchIndex::RemoveStores() const {
  const IndexBenchRun run{config_, nullptr, nullptr, nullptr};
  std::error_code ignored;
  for (const char* suffix : {"", "-small", "-rocks"}) {
    std::filesystem::remove_all(run.store_dir() + suffix, ignored);
  }
  // The next part does not pay for it.
  sync();
}

nlohmann::json BenchIndex::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["what"] = nlohmann::json::object();
  for (const auto& [name, what] : kWhat) json["what"][name] = what;
  json["config"] = {{"buckets", config_.bucket_count},
                    {"rounds", config_.round_count},
                    {"seconds", config_.seconds},
                    {"seed", config_.seed},
                    {"keys", config_.key_count},
                    {"small_keys", config_.small_key_count},
                    {"large_keys", config_.large_key_count},
                    {"billion_keys", config_.billion_key_count},
                    {"stalled_keys", config_.stalled_key_count},
                    {"amplified_keys", config_.amplified_key_count},
                    {"killed_writes", config_.killed_write_count},
                    {"stall_writes", config_.stall_write_count},
                    {"amplified_writes", config_.amplified_write_count},
                    {"lookups", config_.lookup_count},
                    {"billion_lookups", config_.billion_lookup_count},
                    {"paged_records", config_.paged_record_count},
                    {"rocks_records", config_.rocks_record_count},
                    {"race_records_per_thread", config_.race_records_per_thread},
                    {"memory_budget_bytes", config_.memory_budget_bytes},
                    {"readers", config_.reader_count},
                    {"writers", config_.writer_count},
                    {"multiread_callers", config_.caller_count},
                    {"multiread_keys", config_.keys_per_call},
                    {"smoke", config_.is_smoke}};
  json["about"] = about_;
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
