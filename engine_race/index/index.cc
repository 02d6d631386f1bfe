#include "engine_race/index/index.h"

#include <new>
#include <string>
#include <utility>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/build.h"

namespace engine_race {

struct Index::Impl {
  explicit Impl(BucketLog* l)
      : log(l),
        geometry(l->geometry()),
        bucket_shift(63 - geometry.bucket_bits()),
        buckets(std::make_unique<BucketIndex[]>(geometry.bucket_count)) {}

  // As Geometry's, without its questions.
  uint32_t BucketOf(uint64_t key) const {
    return static_cast<uint32_t>((key >> 1) >> bucket_shift);
  }

  BucketLog* const log;
  const Geometry geometry;
  // After a first shift by one bit: by 64 would be one too many.
  const uint32_t bucket_shift;
  const std::unique_ptr<BucketIndex[]> buckets;
  ViewRegistry* views = nullptr;
};

namespace {

Status Damaged(uint32_t bucket) {
  return Status::Corruption("bucket " + std::to_string(bucket) + " has damaged key entries");
}

Status ToStatus(Code code, uint32_t bucket) {
  switch (code) {
    case Code::kOk:
      return Status::Ok();
    case Code::kCorruption:
      return Damaged(bucket);
    default:
      return Status(code, {});
  }
}

}  // namespace

Index::Index() = default;

Index::~Index() {
  if (impl_ == nullptr) return;
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) impl_->log->DetachListener(b);
  if (impl_->views != nullptr) impl_->views->Close();
}

Status Index::Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index) {
  try {
    std::unique_ptr<Index> built(new Index());
    built->impl_ = std::make_unique<Impl>(log);
    ENGINE_RACE_RETURN_IF_ERROR(ViewRegistry::Create(&built->impl_->views));
    BuildContext context(log, built.get(), options, BuildLimits::For(options),
                         {built->impl_->buckets.get(), built->impl_->geometry.bucket_count});
    ENGINE_RACE_RETURN_IF_ERROR(BuildAllBuckets(&context));
    *index = std::move(built);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to build it");
  }
}

Status Index::Find(uint64_t key, ValueRef* ref) const {
  if (impl_->buckets[impl_->BucketOf(key)].FindQuickly(key, ref)) [[likely]] {
    return Status::Ok();
  }
  return FindSlowly(key, ref);
}

// Out of line, so that Find needs no registers saved.
__attribute__((noinline)) Status Index::FindSlowly(uint64_t key, ValueRef* ref) const {
  const uint32_t bucket = impl_->BucketOf(key);
  return ToStatus(impl_->buckets[bucket].Find(key, ref), bucket);
}

Status Index::FindAt(uint64_t key, uint64_t /*epoch*/, ValueRef* ref) const {
  return Find(key, ref);
}

Status Index::Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                      std::vector<IndexEntry>* entries, bool* complete, uint64_t /*epoch*/) const {
  return ToStatus(
      impl_->buckets[bucket].Collect(first_key, last_key, max_entries, entries, complete), bucket);
}

Status Index::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                        std::span<uint64_t> keys, size_t* count) const {
  *count = 0;
  std::vector<IndexEntry> entries;
  for (uint32_t b = impl_->BucketOf(first_key); b <= impl_->BucketOf(last_key); ++b) {
    bool complete = false;
    const Status status = Collect(b, first_key, last_key, keys.size(), &entries, &complete, epoch);
    if (!status.ok() && entries.empty()) return status;
    if (!status.ok() || !complete) break;
  }
  for (const IndexEntry& entry : entries) keys[(*count)++] = entry.key;
  return Status::Ok();
}

Status Index::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                       std::span<uint64_t> keys, size_t* count) const {
  *count = 0;
  std::vector<IndexEntry> entries;
  for (uint32_t b = impl_->BucketOf(last_key) + 1; b-- > impl_->BucketOf(first_key);) {
    std::vector<IndexEntry> more;
    bool complete = false;
    const Status status = Collect(b, first_key, last_key, ~size_t{0}, &more, &complete, epoch);
    if (!status.ok() && entries.empty()) return status;
    if (!status.ok()) break;
    entries.insert(entries.begin(), more.begin(), more.end());
    if (entries.size() >= keys.size()) break;
  }
  const size_t first = entries.size() > keys.size() ? entries.size() - keys.size() : 0;
  for (size_t i = first; i < entries.size(); ++i) keys[(*count)++] = entries[i].key;
  return Status::Ok();
}

uint64_t Index::EstimateCount(uint32_t bucket, uint64_t first_key, uint64_t last_key) const {
  return impl_->buckets[bucket].EstimateCount(first_key, last_key);
}

uint64_t Index::memory_bytes() const {
  uint64_t bytes = sizeof(*this) + sizeof(Impl);
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    bytes += impl_->buckets[b].memory_bytes();
  }
  return bytes;
}

uint64_t Index::pinned_bytes() const { return 0; }

ViewRegistry& Index::views() const { return *impl_->views; }

Status Index::Prepare(uint32_t bucket) { return impl_->buckets[bucket].Prepare(); }

void Index::OnAppend(uint32_t bucket, const KeyRecord& record) noexcept {
  impl_->buckets[bucket].OnAppend(record);
}

}  // namespace engine_race
