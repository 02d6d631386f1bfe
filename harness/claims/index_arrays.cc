#include "harness/claims/index_arrays.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "engine_race/index/part_builder.h"
#include "engine_race/index/sorted_run.h"
#include "harness/claims/index_child.h"
#include "harness/claims/index_files.h"
#include "harness/data/mix.h"
#include "harness/load/fill_keys.h"
#include "harness/load/index_entries.h"
#include "harness/measure/workers.h"
#include "harness/system/child_process.h"
#include "harness/system/fio_runner.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::BucketLog;
using engine_race::Index;
using engine_race::Region;
using engine_race::Status;
namespace format = engine_race::format;

constexpr size_t kSlabBytes = size_t{64} << 20;

// Returns the seconds that `threads` threads need for `work`, which takes buckets from *next.
// *failures gets the threads' exceptions.
double TimeTeam(uint32_t threads, Failures* failures,
                const std::function<void(std::atomic<uint32_t>* next)>& work) {
  std::atomic<uint32_t> next{0};
  const uint64_t start = NowNs();
  RunWorkers(threads, failures, [&](uint32_t) { work(&next); });
  return SecondsSince(start);
}

// Touches this much memory and frees it: fresh memory then costs only the kernel's page faults. A
// hypervisor may take free memory away, and the next touch of it waits. Without this call the first
// of the compared runs would have all of those waits.
Status WarmMemory(size_t bytes) {
  Region region;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes, true, &region));
  for (size_t i = 0; i < region.size(); i += engine_race::kIoAlignment) region.data()[i] = 1;
  return Status::Ok();
}

}  // namespace

Status MeasureArrays(const IndexBenchRun& run) { return IndexArrays(run).Run(); }

IndexArrays::IndexArrays(const IndexBenchRun& run)
    : run_(run),
      key_count_(run.config.key_count),
      bucket_count_(run.config.bucket_count),
      options_(FilledStoreOptions(run.config)),
      keys_(options_, key_count_, run.config.seed) {}

Status IndexArrays::Run() {
  ENGINE_RACE_RETURN_IF_ERROR(
      FillKeyLogs(options_, run_.store_dir(), key_count_, run_.config.seed));
  ENGINE_RACE_RETURN_IF_ERROR(Load());
  for (const auto step :
       {&IndexArrays::MeasureRebuild, &IndexArrays::MeasureLookup, &IndexArrays::MeasureOpen}) {
    ENGINE_RACE_RETURN_IF_ERROR((this->*step)());
    if (Interrupted()) return InterruptedStatus();
  }
  return Status::Ok();
}

Status IndexArrays::Load() {
  ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options_, run_.store_dir(), &log_));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(key_count_ * sizeof(format::KeyEntry), true, &raw_));
  std::vector<format::KeyEntry> entries;
  uint64_t begin = 0;
  for (uint32_t bucket = 0; bucket < bucket_count_; ++bucket) {
    first_entries_.push_back(begin);
    ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(log_.get(), bucket, &entries));
    if (begin + entries.size() > key_count_) return Status::Corruption("too many keys");
    std::copy(entries.begin(), entries.end(),
              reinterpret_cast<format::KeyEntry*>(raw_.data()) + begin);
    begin += entries.size();
  }
  first_entries_.push_back(begin);
  return begin == key_count_ ? Status::Ok() : Status::Corruption("keys are missing");
}

const format::KeyEntry* IndexArrays::RawBucket(uint32_t bucket) const {
  return reinterpret_cast<const format::KeyEntry*>(raw_.data()) + first_entries_[bucket];
}

PackedEntry* IndexArrays::PackedBucket(const Region& packed, uint32_t bucket) const {
  return reinterpret_cast<PackedEntry*>(packed.data()) + first_entries_[bucket];
}

Status IndexArrays::SortPacked(bool huge_pages, Region* packed, double* seconds) {
  packed->Reset();
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(key_count_ * sizeof(PackedEntry), huge_pages, packed));
  Failures failures;
  *seconds = TimeTeam(options_.build_thread_count, &failures, [&](std::atomic<uint32_t>* next) {
    for (uint32_t b = (*next)++; b < bucket_count_; b = (*next)++) {
      PackedEntry* const entries = PackedBucket(*packed, b);
      const format::KeyEntry* const raw = RawBucket(b);
      const uint64_t count = first_entries_[b + 1] - first_entries_[b];
      for (uint32_t slot = 0; slot < count; ++slot) {
        entries[slot] = {raw[slot].key, slot};
      }
      std::sort(entries, entries + count);
    }
  });
  return failures.any() ? Status::IOError(failures.first()) : Status::Ok();
}

Status IndexArrays::BuildParts(double* seconds, uint64_t* memory_bytes) {
  std::vector<engine_race::BuiltParts> built(bucket_count_);
  Failures failures;
  const engine_race::Geometry& geometry = log_->geometry();
  *seconds = TimeTeam(options_.build_thread_count, &failures, [&](std::atomic<uint32_t>* next) {
    engine_race::SlabAllocator slabs(kSlabBytes);
    engine_race::PartBuilder builder(&slabs);
    for (uint32_t b = (*next)++; b < bucket_count_; b = (*next)++) {
      engine_race::RawBucket raw;
      raw.entries = {RawBucket(b), first_entries_[b + 1] - first_entries_[b]};
      raw.codec = log_->codec(b);
      raw.keys = geometry.KeysOf(b);
      if (!builder.Build(raw, &built[b]).ok() || !built[b].damaged_slots.empty()) {
        return failures.Note("a bucket could not be built");
      }
    }
  });
  if (failures.any()) return Status::Corruption(failures.first());
  uint64_t keys = 0;
  *memory_bytes = 0;
  for (const engine_race::BuiltParts& each : built) {
    for (const auto& part : each.parts) {
      keys += part->run.count();
      *memory_bytes += part->memory_bytes();
    }
  }
  return keys == key_count_ ? Status::Ok() : Status::Corruption("keys are missing");
}

Status IndexArrays::MeasureRebuild() {
  const size_t output_bytes = key_count_ * engine_race::SortedRun::kBytesPerRecord;
  // The first round warms up: it does not count.
  for (uint32_t round = 0; round <= run_.config.round_count; ++round) {
    double ordinary = 0;
    double huge = 0;
    double ours = 0;
    uint64_t memory_bytes = 0;
    Region packed;
    ENGINE_RACE_RETURN_IF_ERROR(WarmMemory(output_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(SortPacked(false, &packed, &ordinary));
    packed.Reset();
    ENGINE_RACE_RETURN_IF_ERROR(WarmMemory(output_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(BuildParts(&ours, &memory_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(WarmMemory(output_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(SortPacked(true, &packed, &huge));
    if (round == 0) continue;
    run_.rounds->Note("std_sort_s", ordinary);
    run_.rounds->Note("std_sort_in_huge_pages_s", huge);
    run_.rounds->Note("rebuild_s", ours);
    run_.rounds->Note(kRebuildSpeedup, ordinary / ours);
    run_.rounds->Note("rebuild_speedup_over_huge_pages", huge / ours);
    run_.rounds->Note("part_bytes_per_key",
                      static_cast<double>(memory_bytes) / static_cast<double>(key_count_));
  }
  double unused = 0;
  ENGINE_RACE_RETURN_IF_ERROR(SortPacked(false, &packed_, &unused));
  ENGINE_RACE_RETURN_IF_ERROR(SortPacked(true, &packed_in_huge_pages_, &unused));
  raw_.Reset();
  return Status::Ok();
}

std::vector<uint64_t> IndexArrays::DrawKeys(size_t count) const {
  std::vector<uint64_t> keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = keys_.PresentKey(MixAt(run_.config.seed, i));
  return keys;
}

Status IndexArrays::MeasureLookup() {
  std::unique_ptr<Index> index;
  ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log_.get(), options_, &index));
  run_.rounds->Note("index_bytes_per_key",
                    static_cast<double>(index->memory_bytes()) / static_cast<double>(key_count_));
  const std::vector<uint64_t> keys = DrawKeys(std::min(key_count_, run_.config.lookup_count));
  // The first round warms up: it does not count.
  for (uint32_t round = 0; round <= run_.config.round_count; ++round) {
    uint64_t ordinary_sum = 0;
    uint64_t huge_sum = 0;
    uint64_t our_sum = 0;
    const double ordinary = SearchPacked(packed_, keys, &ordinary_sum);
    const uint64_t start = NowNs();
    for (const uint64_t key : keys) {
      engine_race::ValueRef ref;
      if (!index->Find(key, &ref).ok()) return Status::Corruption("a key was not found");
      our_sum += ref.slot();
    }
    const double ours = SecondsSince(start) * 1e9 / static_cast<double>(keys.size());
    const double huge = SearchPacked(packed_in_huge_pages_, keys, &huge_sum);
    if (our_sum != ordinary_sum || our_sum != huge_sum) {
      return Status::Corruption("a key was found in another slot");
    }
    if (round == 0) continue;
    run_.rounds->Note("lower_bound_ns", ordinary);
    run_.rounds->Note("lower_bound_in_huge_pages_ns", huge);
    run_.rounds->Note("lookup_ns", ours);
    run_.rounds->Note(kLookupSpeedup, ordinary / ours);
    run_.rounds->Note("lookup_speedup_over_huge_pages", huge / ours);
  }
  packed_.Reset();
  packed_in_huge_pages_.Reset();
  return Status::Ok();
}

double IndexArrays::SearchPacked(const Region& packed, const std::vector<uint64_t>& keys,
                                 uint64_t* slot_sum) const {
  const uint64_t start = NowNs();
  for (const uint64_t key : keys) {
    const uint32_t bucket = log_->geometry().BucketOf(key);
    *slot_sum += std::lower_bound(PackedBucket(packed, bucket), PackedBucket(packed, bucket + 1),
                                  PackedEntry{key, 0})
                     ->slot;
  }
  return SecondsSince(start) * 1e9 / static_cast<double>(keys.size());
}

Status IndexArrays::MeasureOpen() {
  log_.reset();
  const bool has_fio = FioRunner::Available();
  if (!has_fio) run_.Complain(std::string(kOpenRatio) + ": fio is missing");
  FioRunner fio(run_.config.dir);
  for (uint32_t round = 0; round < run_.config.round_count; ++round) {
    RemoveIndexRoot(run_.store_dir());
    OpenOrder order{run_.store_dir()};
    order.first_key = keys_.PresentKey(Mix64(round));
    OpenAnswer answer;
    ENGINE_RACE_RETURN_IF_ERROR(OpenInChild(order, &answer));
    run_.rounds->Note("open_s", answer.seconds);
    run_.rounds->Note(kPeakRss, static_cast<double>(answer.peak_rss_bytes) / (1 << 20));
    if (!has_fio) continue;
    const FioResult device = fio.BestScan(key_count_ * sizeof(format::KeyEntry));
    if (device.ok) {
      run_.rounds->Note("device_read_s", device.seconds);
      run_.rounds->Note(kOpenRatio, answer.seconds / device.seconds);
    } else {
      run_.Complain("fio: " + device.error);
    }
  }
  return Status::Ok();
}

}  // namespace harness
