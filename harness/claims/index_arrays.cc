// Builds and lookups of an index in memory, beside the standard library's sort and search.
//
// Compared runs alternate in short rounds on the same data. The library's sort and search run in
// ordinary memory, as std::vector would give them, and once more in huge pages. The difference is
// the gain from huge pages, which the engine asks for.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/index/index.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/log/bucket_log.h"
#include "harness/claims/index_bench.h"
#include "harness/data/mix.h"
#include "harness/load/fill_keys.h"
#include "harness/system/fio_runner.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// The 12 bytes a key that the baselines sort and search.
struct __attribute__((packed)) PackedEntry {
  uint64_t key;
  uint32_t slot;

  bool operator<(const PackedEntry& other) const {
    return key != other.key ? key < other.key : slot < other.slot;
  }
};
static_assert(sizeof(PackedEntry) == 12);

// Touches this much memory and frees it: fresh memory then costs only the kernel's page faults. A
// hypervisor may take free memory away, and the next touch of it waits. Without this call the first
// of the compared runs would have all of those waits.
Status WarmMemory(size_t bytes) {
  Region region;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes, true, &region));
  for (size_t i = 0; i < region.size(); i += kIoAlignment) region.data()[i] = 1;
  return Status::Ok();
}

}  // namespace

// Builds of the index from the key entries of all buckets, and searches among its keys.
class IndexArrays {
 public:
  IndexArrays(IndexBench* bench, const FilledStore& store)
      : bench_(*bench),
        rounds_(bench->rounds_),
        keys_(store.keys()),
        key_count_(keys_.key_count()),
        lookup_count_(bench->lookup_count_),
        seed_(bench->seed_),
        bucket_count_(store.options().bucket_count),
        options_(store.options()) {}

  Status Load(const std::string& dir) {
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options_, dir, &log_));
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(key_count_ * sizeof(format::KeyEntry), true, &raw_));
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

  Status MeasureRebuild(uint32_t round_count) {
    constexpr char kSort[] = "std_sort_s";
    constexpr char kHugeSort[] = "std_sort_in_huge_pages_s";
    constexpr char kRebuild[] = "rebuild_s";
    const auto reset = [this] {
      packed_.Reset();
      packed_in_huge_pages_.Reset();
    };
    const auto sort = [&] {
      reset();
      return SortPacked(kSort, false, &packed_);
    };
    const auto sort_in_huge_pages = [&] {
      reset();
      return SortPacked(kHugeSort, true, &packed_in_huge_pages_);
    };
    const auto build = [&] {
      reset();
      return BuildParts(kRebuild);
    };
    return rounds_.Run({.count = round_count, .warms_up = true}, {sort, build, sort_in_huge_pages},
                       {{"rebuild_speedup_over_huge_pages", kHugeSort, kRebuild}});
  }

  Status MeasureLookup(uint32_t round_count) {
    constexpr char kSearch[] = "lower_bound_ns";
    constexpr char kHugeSearch[] = "lower_bound_in_huge_pages_ns";
    constexpr char kLookup[] = "lookup_ns";
    packed_.Reset();
    packed_in_huge_pages_.Reset();
    ENGINE_RACE_RETURN_IF_ERROR(SortPacked(nullptr, false, &packed_));
    ENGINE_RACE_RETURN_IF_ERROR(SortPacked(nullptr, true, &packed_in_huge_pages_));
    raw_.Reset();
    std::unique_ptr<Index> index;
    ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log_.get(), options_, &index));
    rounds_.Note("index_bytes_per_key",
                 static_cast<double>(index->memory_bytes()) / static_cast<double>(key_count_));
    drawn_.resize(std::min(key_count_, lookup_count_));
    for (size_t i = 0; i < drawn_.size(); ++i) drawn_[i] = keys_.PresentKey(MixAt(seed_, i));
    uint64_t expected_sum = 0;
    const auto time = [&](const char* figure, const IndexLookups& lookups) {
      return bench_.TimeLookups(figure, drawn_.size(), lookups, &expected_sum);
    };
    const IndexLookups search = [&](uint64_t* sum) { return SearchPacked(packed_, sum); };
    const IndexLookups search_huge = [&](uint64_t* sum) {
      return SearchPacked(packed_in_huge_pages_, sum);
    };
    const IndexLookups find = [&](uint64_t* sum) { return FindKeys(*index, sum); };
    return rounds_.Run({.count = round_count, .warms_up = true},
                       {[&] { return time(kSearch, search); }, [&] { return time(kLookup, find); },
                        [&] { return time(kHugeSearch, search_huge); }},
                       {{"lookup_speedup_over_huge_pages", kHugeSearch, kLookup}});
  }

 private:
  // Notes the seconds that the builders' threads need for `work` on each bucket, which a worker
  // does: one that `make_worker` has made for its thread. A null figure is not noted.
  template <typename MakeWorker>
  Status TimeBuckets(const char* figure, const MakeWorker& make_worker) {
    std::atomic<uint32_t> next{0};
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(RunParallel("build", options_.build_thread_count, [&](uint32_t) {
      auto work = make_worker();
      for (uint32_t b = next++; b < bucket_count_; b = next++) {
        if (!work(b)) return Status::Corruption("a bucket could not be built");
      }
      return Status::Ok();
    }));
    if (figure != nullptr) rounds_.Note(figure, SecondsSince(began_ns));
    return Status::Ok();
  }

  // Copies the entries of every bucket into fresh memory and sorts them.
  Status SortPacked(const char* figure, bool huge_pages, Region* packed) {
    ENGINE_RACE_RETURN_IF_ERROR(WarmMemory(key_count_ * SortedRun::kBytesPerRecord));
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(key_count_ * sizeof(PackedEntry), huge_pages, packed));
    return TimeBuckets(figure, [&] {
      return [&](uint32_t b) {
        PackedEntry* const entries = PackedBucket(*packed, b);
        const format::KeyEntry* const raw = RawBucket(b);
        for (uint32_t slot = 0; slot < CountOf(b); ++slot) entries[slot] = {raw[slot].key, slot};
        std::sort(entries, entries + CountOf(b));
        return true;
      };
    });
  }

  Status BuildParts(const char* figure) {
    constexpr size_t kSlabBytes = size_t{64} << 20;
    struct Builder {
      SlabAllocator slabs{kSlabBytes};
      PartBuilder parts{&slabs};
    };
    std::vector<BuiltParts> built(bucket_count_);
    ENGINE_RACE_RETURN_IF_ERROR(WarmMemory(key_count_ * SortedRun::kBytesPerRecord));
    ENGINE_RACE_RETURN_IF_ERROR(TimeBuckets(figure, [&] {
      return [&, builder = std::make_unique<Builder>()](uint32_t b) {
        engine_race::RawBucket raw;
        raw.entries = {RawBucket(b), CountOf(b)};
        raw.codec = log_->codec(b);
        raw.keys = log_->geometry().KeysOf(b);
        return builder->parts.Build(raw, &built[b]).ok() && built[b].damaged_slots.empty();
      };
    }));
    uint64_t keys = 0;
    uint64_t memory_bytes = 0;
    for (const BuiltParts& each : built) {
      for (const auto& part : each.parts) {
        keys += part->run.count();
        memory_bytes += part->memory_bytes();
      }
    }
    rounds_.Note("part_bytes_per_key",
                 static_cast<double>(memory_bytes) / static_cast<double>(key_count_));
    return keys == key_count_ ? Status::Ok() : Status::Corruption("keys are missing");
  }

  Status SearchPacked(const Region& packed, uint64_t* slot_sum) const {
    for (const uint64_t key : drawn_) {
      const uint32_t bucket = log_->geometry().BucketOf(key);
      *slot_sum += std::lower_bound(PackedBucket(packed, bucket), PackedBucket(packed, bucket + 1),
                                    PackedEntry{key, 0})
                       ->slot;
    }
    return Status::Ok();
  }

  Status FindKeys(const Index& index, uint64_t* slot_sum) const {
    for (const uint64_t key : drawn_) {
      ValueRef ref;
      if (!index.Find(key, &ref).ok()) return Status::Corruption("a key was not found");
      *slot_sum += ref.slot();
    }
    return Status::Ok();
  }

  const format::KeyEntry* RawBucket(uint32_t bucket) const {
    return reinterpret_cast<const format::KeyEntry*>(raw_.data()) + first_entries_[bucket];
  }
  uint64_t CountOf(uint32_t bucket) const {
    return first_entries_[bucket + 1] - first_entries_[bucket];
  }
  PackedEntry* PackedBucket(const Region& packed, uint32_t bucket) const {
    return reinterpret_cast<PackedEntry*>(packed.data()) + first_entries_[bucket];
  }

  IndexBench& bench_;
  ClaimRounds& rounds_;
  const IndexKeys& keys_;
  const uint64_t key_count_;
  const uint64_t lookup_count_;
  const uint64_t seed_;
  const uint32_t bucket_count_;
  const Options options_;
  std::unique_ptr<BucketLog> log_;
  Region raw_;  // the key entries of all buckets, one after another
  std::vector<uint64_t> first_entries_;
  Region packed_;
  Region packed_in_huge_pages_;
  std::vector<uint64_t> drawn_;
};

Status IndexBench::MeasureArrays() {
  constexpr char kOpen[] = "open_s";
  constexpr char kDevice[] = "device_read_s";
  FilledStore store = StoreOf(key_count_);
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(FilledOptions(), store.dir(), key_count_, seed_));
  {
    IndexArrays arrays(this, store);
    ENGINE_RACE_RETURN_IF_ERROR(arrays.Load(store.dir()));
    ENGINE_RACE_RETURN_IF_ERROR(arrays.MeasureRebuild(round_count_));
    ENGINE_RACE_RETURN_IF_ERROR(arrays.MeasureLookup(round_count_));
  }
  // A child process opens the store and builds the index.
  const auto open = [&] {
    nlohmann::json cost;
    ENGINE_RACE_RETURN_IF_ERROR(store.Rebuild(&cost));
    rounds_.Note(kOpen, cost.at("seconds"));
    rounds_.Note("peak_rss_64m_mib", cost.at("peak_rss_bytes").get<double>() / (1 << 20));
    return Status::Ok();
  };
  FioRunner fio(dir());
  const auto read_device = [&] {
    const FioResult device = fio.BestScan(key_count_ * sizeof(format::KeyEntry));
    if (!device.ok) Complain("open_ratio: " + device.error);
    if (device.ok) rounds_.Note(kDevice, device.seconds);
    return Status::Ok();
  };
  return rounds_.Run({round_count_}, {open, read_device});
}

}  // namespace engine_race::harness
