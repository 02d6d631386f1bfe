#include "harness/claims/bench_index.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/base/parallel.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/store.h"
#include "harness/load/fill_keys.h"
#include "harness/measure/workers.h"
#include "harness/system/child_process.h"
#include "harness/system/fio_runner.h"
#include "harness/system/machine.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::BucketLog;
using engine_race::Index;
using engine_race::Region;
using engine_race::Status;
namespace format = engine_race::format;

constexpr ClaimTarget kTargets[] = {{"rebuild_speedup", ">= 2.7"},
                                    {"lookup_speedup", ">= 5.0"},
                                    {"open_ratio", "<= 3.0"},
                                    {"peak_rss_64m_mib", "<= 1500"}};

constexpr size_t kSlabBytes = size_t{64} << 20;
constexpr size_t kMaxLookups = 4000000;

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

class NoListener : public engine_race::AppendListener {
 public:
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const engine_race::KeyRecord&) noexcept override {}
};

}  // namespace

IndexBench::IndexBench(IndexBenchConfig config)
    : config_(std::move(config)), store_dir_(config_.dir + "/index-store"), rounds_(kTargets) {
  options_.bucket_count = config_.bucket_count;
  options_.file_count = std::min(options_.file_count, options_.bucket_count);
  options_.build_thread_count =
      config_.thread_count != 0 ? config_.thread_count : engine_race::AvailableCpuCount();
}

IndexBench::~IndexBench() {
  log_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(store_dir_, ignored);
}

bool IndexBench::Run() {
  for (const auto step : {&IndexBench::Fill, &IndexBench::Load, &IndexBench::MeasureRebuild,
                          &IndexBench::MeasureLookup, &IndexBench::MeasureOpen}) {
    const Status status = (this->*step)();
    if (!status.ok()) {
      error_ = status.ToString();
      return false;
    }
    if (Interrupted()) {
      error_ = "interrupted";
      return false;
    }
  }
  return true;
}

Status IndexBench::Fill() {
  std::error_code error;
  std::filesystem::create_directories(config_.dir, error);
  if (std::filesystem::exists(store_dir_, error)) {
    return Status::InvalidArgument(store_dir_ + " is there already");
  }
  return FillKeyLogs(options_, store_dir_, config_.key_count, config_.seed);
}

Status IndexBench::Load() {
  ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options_, store_dir_, &log_));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(
      (config_.key_count + 512 * config_.bucket_count) * sizeof(format::KeyEntry), true, &raw_));
  NoListener listener;
  uint64_t begin = 0;
  for (uint32_t bucket = 0; bucket < config_.bucket_count; ++bucket) {
    first_entries_.push_back(begin);
    engine_race::BucketCut cut;
    ENGINE_RACE_RETURN_IF_ERROR(log_->CutBucket(bucket, &listener, &cut));
    log_->DetachListener(bucket);
    // Direct reads are of whole pages; the next bucket overwrites the surplus.
    Region pages;
    const size_t bytes = cut.logged_key_watermark * sizeof(format::KeyEntry);
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes, false, &pages));
    if (bytes > 0) {
      ENGINE_RACE_RETURN_IF_ERROR(
          log_->KeyFile(bucket).Read(pages.data(), bytes, log_->KeyOffset(bucket, 0)));
    }
    auto* const entries = reinterpret_cast<format::KeyEntry*>(raw_.data()) + begin;
    std::copy_n(reinterpret_cast<const format::KeyEntry*>(pages.data()), cut.logged_key_watermark,
                entries);
    std::copy(cut.staged_keys.begin(), cut.staged_keys.end(), entries + cut.logged_key_watermark);
    begin += cut.record_count;
  }
  first_entries_.push_back(begin);
  return begin == config_.key_count ? Status::Ok() : Status::Corruption("keys are missing");
}

PackedEntry* IndexBench::PackedBucket(const Region& packed, uint32_t bucket) const {
  return reinterpret_cast<PackedEntry*>(packed.data()) + first_entries_[bucket];
}

Status IndexBench::SortPacked(bool huge_pages, Region* packed, double* seconds) {
  packed->Reset();
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(config_.key_count * sizeof(PackedEntry), huge_pages, packed));
  const auto* const raw = reinterpret_cast<const format::KeyEntry*>(raw_.data());
  Failures failures;
  *seconds = TimeTeam(options_.build_thread_count, &failures, [&](std::atomic<uint32_t>* next) {
    for (uint32_t b = (*next)++; b < config_.bucket_count; b = (*next)++) {
      PackedEntry* const entries = PackedBucket(*packed, b);
      const uint64_t count = first_entries_[b + 1] - first_entries_[b];
      for (uint32_t slot = 0; slot < count; ++slot) {
        entries[slot] = {raw[first_entries_[b] + slot].key, slot};
      }
      std::sort(entries, entries + count);
    }
  });
  return failures.any() ? Status::IOError(failures.first()) : Status::Ok();
}

Status IndexBench::BuildParts(double* seconds, uint64_t* memory_bytes) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(raw_.data());
  std::vector<engine_race::BuiltParts> built(config_.bucket_count);
  Failures failures;
  const engine_race::Geometry& geometry = log_->geometry();
  *seconds = TimeTeam(options_.build_thread_count, &failures, [&](std::atomic<uint32_t>* next) {
    engine_race::SlabAllocator slabs(kSlabBytes);
    engine_race::PartBuilder builder(&slabs);
    for (uint32_t b = (*next)++; b < config_.bucket_count; b = (*next)++) {
      engine_race::RawBucket raw;
      raw.entries = {entries + first_entries_[b], first_entries_[b + 1] - first_entries_[b]};
      raw.codec = log_->codec(b);
      raw.sequence_bound = raw.entries.size();
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
  return keys == config_.key_count ? Status::Ok() : Status::Corruption("keys are missing");
}

Status IndexBench::MeasureRebuild() {
  const size_t output_bytes = config_.key_count * 17;
  // The first round warms up: it does not count.
  for (uint32_t round = 0; round <= config_.round_count; ++round) {
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
    rounds_.Note("std_sort_s", ordinary);
    rounds_.Note("std_sort_in_huge_pages_s", huge);
    rounds_.Note("rebuild_s", ours);
    rounds_.Note("rebuild_speedup", ordinary / ours);
    rounds_.Note("rebuild_speedup_over_huge_pages", huge / ours);
    rounds_.Note("part_bytes_per_key",
                 static_cast<double>(memory_bytes) / static_cast<double>(config_.key_count));
  }
  double unused = 0;
  ENGINE_RACE_RETURN_IF_ERROR(SortPacked(false, &packed_, &unused));
  ENGINE_RACE_RETURN_IF_ERROR(SortPacked(true, &packed_in_huge_pages_, &unused));
  raw_.Reset();
  return Status::Ok();
}

std::vector<uint64_t> IndexBench::DrawKeys(size_t count) const {
  std::mt19937_64 random(config_.seed);
  std::vector<uint64_t> keys;
  keys.reserve(count);
  while (keys.size() < count) {
    const auto bucket = static_cast<uint32_t>(random() % config_.bucket_count);
    const uint64_t in_bucket = first_entries_[bucket + 1] - first_entries_[bucket];
    if (in_bucket == 0) continue;
    keys.push_back(FilledKey(log_->geometry(), bucket, random() % in_bucket, config_.seed));
  }
  return keys;
}

Status IndexBench::MeasureLookup() {
  std::unique_ptr<Index> index;
  ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log_.get(), options_, &index));
  rounds_.Note("index_bytes_per_key",
               static_cast<double>(index->memory_bytes()) / static_cast<double>(config_.key_count));
  const std::vector<uint64_t> keys = DrawKeys(std::min<size_t>(config_.key_count, kMaxLookups));
  // The first round warms up: it does not count.
  for (uint32_t round = 0; round <= config_.round_count; ++round) {
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
    rounds_.Note("lower_bound_ns", ordinary);
    rounds_.Note("lower_bound_in_huge_pages_ns", huge);
    rounds_.Note("lookup_ns", ours);
    rounds_.Note("lookup_speedup", ordinary / ours);
    rounds_.Note("lookup_speedup_over_huge_pages", huge / ours);
  }
  packed_.Reset();
  packed_in_huge_pages_.Reset();
  return Status::Ok();
}

double IndexBench::SearchPacked(const Region& packed, const std::vector<uint64_t>& keys,
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

Status IndexBench::MeasureOpen() {
  const uint64_t key = DrawKeys(1)[0];
  log_.reset();
  const bool has_fio = FioRunner::Available();
  if (!has_fio && !config_.is_smoke) return Status::NotSupported("fio is missing");
  FioRunner fio(config_.dir);
  for (uint32_t round = 0; round < config_.round_count; ++round) {
    DropPageCache(store_dir_);
    const ChildResult child =
        RunChild({SelfPath(), "--open-child", store_dir_, "--open-key", std::to_string(key)});
    const auto report = nlohmann::json::parse(child.output, nullptr, false);
    if (child.exit_code != 0 || !report.is_object()) {
      return Status::IOError("the opening child failed: " + child.error + child.output);
    }
    const double seconds = report["seconds"];
    rounds_.Note("open_s", seconds);
    rounds_.Note("peak_rss_64m_mib", report["peak_rss_bytes"].get<double>() / (1 << 20));
    if (!has_fio) continue;
    const FioResult device = fio.BestScan(config_.key_count * sizeof(format::KeyEntry));
    if (device.ok) {
      rounds_.Note("device_read_s", device.seconds);
      rounds_.Note("open_ratio", seconds / device.seconds);
    } else if (!config_.is_smoke) {
      return Status::IOError("fio: " + device.error);
    }
  }
  return Status::Ok();
}

nlohmann::json IndexBench::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["settings"] = {{"keys", config_.key_count},
                      {"buckets", config_.bucket_count},
                      {"threads", options_.build_thread_count},
                      {"smoke", config_.is_smoke}};
  json["machine"] = DescribeMachine(config_.dir);
  return json;
}

int OpenChildMain(const std::string& store_dir, uint64_t key) {
  std::string key_bytes(engine_race::kKeyBytes, '\0');
  engine_race::EncodeKey(key, key_bytes.data());
  std::string value;
  std::unique_ptr<engine_race::Store> store;
  const uint64_t start = NowNs();
  Status status = engine_race::Store::Open(engine_race::Options(), store_dir, &store);
  if (status.ok()) status = store->Read(key_bytes, &value);
  const double seconds = SecondsSince(start);
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return 1;
  }
  const nlohmann::json report = {{"seconds", seconds}, {"peak_rss_bytes", PeakRssBytes()}};
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace harness
