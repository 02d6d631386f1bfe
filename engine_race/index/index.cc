#include "engine_race/index/index.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "engine_race/base/placement.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/build.h"
#include "engine_race/index/pinned_buckets.h"

namespace engine_race {

struct Index::Impl {
  Impl(BucketLog* l, const Options& o)
      : log(l),
        options(o),
        geometry(l->geometry()),
        buckets(std::make_unique<BucketIndex[]>(geometry.bucket_count)) {}

  uint32_t BucketOf(uint64_t key) const { return geometry.BucketOf(key); }

  BucketLog* const log;
  const Options options;
  const Geometry geometry;
  const std::unique_ptr<BucketIndex[]> buckets;
  std::unique_ptr<PinnedBuckets> pinned;
  UnreadBuckets unread;
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
    case Code::kIOError:
      return Status::IOError("bucket " + std::to_string(bucket) +
                             " was read only after the view was taken, and has changed before");
    default:
      return Status(code, {});
  }
}

}  // namespace

Index::Index() = default;

Index::~Index() {
  if (impl_ == nullptr) return;
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) impl_->log->DetachListener(b);
  if (impl_->pinned != nullptr) impl_->pinned->views().Close();
}

Status Index::Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index) {
  try {
    std::unique_ptr<Index> built(new Index());
    {
      // Lookups read the array of buckets, which comes from the heap.
      const PolicyScope scope(log->placement().memory());
      built->impl_ = std::make_unique<Impl>(log, options);
    }
    ENGINE_RACE_RETURN_IF_ERROR(built->MakeViews());
    BuildContext context(log, built.get(), options, BuildLimits::For(options),
                         {built->impl_->buckets.get(), built->impl_->geometry.bucket_count},
                         &built->impl_->unread);
    ENGINE_RACE_RETURN_IF_ERROR(BuildAllBuckets(&context));
    *index = std::move(built);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to build it");
  }
}

Status Index::MakeViews() {
  // Before the registry is made, because this may throw and nothing would close the registry.
  auto pinned = std::make_unique<PinnedBuckets>(impl_->log->placement());
  ViewRegistry* views = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(ViewRegistry::Create(&views));
  pinned->Watch(views);
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    impl_->buckets[b].set_pinned(pinned.get());
  }
  impl_->pinned = std::move(pinned);
  return Status::Ok();
}

Status Index::Load(uint32_t bucket) const {
  return impl_->unread.Load(bucket, [this, bucket](uint64_t record_count) {
    const Options& options = impl_->options;
    // The cast is sound: the index is the log's listener, and Build had it as non-const.
    BuildContext context(impl_->log, const_cast<Index*>(this), options, BuildLimits::For(options),
                         {impl_->buckets.get(), impl_->geometry.bucket_count}, &impl_->unread);
    ENGINE_RACE_RETURN_IF_ERROR(BuildBucket(&context, bucket));
    // From here on the listener is told of each append. Views of the new version come later.
    if (impl_->log->RecordCount(bucket) != record_count) {
      impl_->unread.HideFromOlder(bucket, views().StampWrite().version);
    }
    impl_->buckets[bucket].Admit();
    return Status::Ok();
  });
}

template <typename Lookup>
Status Index::Answer(uint32_t bucket, uint64_t version, const Lookup& lookup) const {
  Code code = lookup();
  if (code == Code::kIOError) [[unlikely]] {
    ENGINE_RACE_RETURN_IF_ERROR(Load(bucket));
    code = lookup();
  }
  if (impl_->unread.IsHidden(bucket, version)) [[unlikely]] {
    code = Code::kIOError;
  }
  return ToStatus(code, bucket);
}

Status Index::Find(uint64_t key, ValueRef* ref) const {
  if (impl_->buckets[impl_->BucketOf(key)].unchanged().Find(key, ref)) [[likely]] {
    return Status::Ok();
  }
  return FindSlowly(key, ref);
}

// Not inlined, so that Find needs no registers saved.
__attribute__((noinline)) Status Index::FindSlowly(uint64_t key, ValueRef* ref) const {
  const uint32_t bucket = impl_->BucketOf(key);
  return Answer(bucket, kLatestVersion, [&] { return impl_->buckets[bucket].Find(key, ref); });
}

Status Index::FindAt(uint64_t key, uint64_t version, ValueRef* ref) const {
  const uint32_t bucket = impl_->BucketOf(key);
  // A bucket that nothing was appended to looks the same at every version.
  if (impl_->buckets[bucket].unchanged().Find(key, ref)) [[likely]] {
    return Status::Ok();
  }
  return Answer(bucket, version, [&] { return impl_->buckets[bucket].FindAt(key, version, ref); });
}

void Index::SetFrameSlots(const std::atomic<uint32_t>* slots) {
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    impl_->buckets[b].set_frame_slots(slots);
  }
}

Status Index::FindHot(uint64_t key, ValueRef* ref) const {
  if (impl_->buckets[impl_->BucketOf(key)].unchanged().FindHot(key, ref)) [[likely]] {
    return Status::Ok();
  }
  return FindHotSlowly(key, ref);
}

// Not inlined, like FindSlowly.
__attribute__((noinline)) Status Index::FindHotSlowly(uint64_t key, ValueRef* ref) const {
  const uint32_t bucket = impl_->BucketOf(key);
  return ToStatus(impl_->buckets[bucket].FindHot(key, ref), bucket);
}

Status Index::FindHotAt(uint64_t key, uint64_t version, ValueRef* ref) const {
  const uint32_t bucket = impl_->BucketOf(key);
  // See FindAt.
  if (impl_->buckets[bucket].unchanged().FindHot(key, ref)) [[likely]] {
    return Status::Ok();
  }
  const Code code = impl_->buckets[bucket].FindHotAt(key, version, ref);
  return ToStatus(impl_->unread.IsHidden(bucket, version) ? Code::kIOError : code, bucket);
}

bool Index::Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept {
  return impl_->buckets[impl_->BucketOf(key)].Swizzle(key, ref, frame);
}

Index::Unswizzled Index::Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept {
  return impl_->buckets[impl_->BucketOf(key)].Unswizzle(key, frame, only_cooling);
}

bool Index::Cool(uint64_t key, uint32_t frame) noexcept {
  return impl_->buckets[impl_->BucketOf(key)].Cool(key, frame);
}

bool Index::Heat(uint64_t key, uint32_t frame) noexcept {
  return impl_->buckets[impl_->BucketOf(key)].Heat(key, frame);
}

Status Index::Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                      std::vector<IndexEntry>* entries, bool* complete, uint64_t version) const {
  return Answer(bucket, version, [&] {
    return impl_->buckets[bucket].Collect(first_key, last_key, max_entries, entries, complete,
                                          version);
  });
}

Status Index::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                        std::span<uint64_t> keys, size_t* count) const {
  const BucketIndex& bucket = impl_->buckets[impl_->BucketOf(first_key)];
  if (bucket.unchanged().FirstKeys(first_key, last_key, keys, count)) [[likely]] {
    return Status::Ok();
  }
  return FirstKeysSlowly(first_key, last_key, version, keys, count);
}

// Not inlined, like FindSlowly.
__attribute__((noinline)) Status Index::FirstKeysSlowly(uint64_t first_key, uint64_t last_key,
                                                        uint64_t version, std::span<uint64_t> keys,
                                                        size_t* count) const {
  *count = 0;
  if (first_key > last_key) return Status::Ok();
  const uint32_t last_bucket = impl_->BucketOf(last_key);
  for (uint32_t b = impl_->BucketOf(first_key); b <= last_bucket; ++b) {
    size_t added = 0;
    const Status status = Answer(b, version, [&] {
      return impl_->buckets[b].FirstKeys(first_key, last_key, version, keys.subspan(*count),
                                         &added);
    });
    if (!status.ok()) return *count > 0 ? Status::Ok() : status;
    *count += added;
    if (*count == keys.size()) break;
  }
  return Status::Ok();
}

Status Index::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                       std::span<uint64_t> keys, size_t* count) const {
  const BucketIndex& bucket = impl_->buckets[impl_->BucketOf(last_key)];
  if (bucket.unchanged().LastKeys(first_key, last_key, keys, count)) [[likely]] {
    return Status::Ok();
  }
  return LastKeysSlowly(first_key, last_key, version, keys, count);
}

__attribute__((noinline)) Status Index::LastKeysSlowly(uint64_t first_key, uint64_t last_key,
                                                       uint64_t version, std::span<uint64_t> keys,
                                                       size_t* count) const {
  *count = 0;
  if (first_key > last_key) return Status::Ok();
  // LastKeys of a bucket fills its keys from the back.
  Status status;
  size_t free = keys.size();
  const uint32_t first_bucket = impl_->BucketOf(first_key);
  for (uint32_t b = impl_->BucketOf(last_key) + 1; b-- > first_bucket && free > 0;) {
    size_t added = 0;
    Status found = Answer(b, version, [&] {
      return impl_->buckets[b].LastKeys(first_key, last_key, version, keys.first(free), &added);
    });
    if (!found.ok()) {
      if (free == keys.size()) status = std::move(found);
      break;
    }
    free -= added;
  }
  *count = keys.size() - free;
  if (free > 0) std::copy(keys.begin() + static_cast<ptrdiff_t>(free), keys.end(), keys.begin());
  return status;
}

uint64_t Index::EstimateCount(uint32_t bucket, uint64_t first_key, uint64_t last_key) const {
  return impl_->buckets[bucket].EstimateCount(first_key, last_key);
}

uint64_t Index::memory_bytes() const noexcept {
  return sizeof(*this) + sizeof(Impl) + impl_->geometry.bucket_count * sizeof(BucketIndex) +
         impl_->pinned->part_bytes().bytes() + impl_->pinned->bytes();
}

uint64_t Index::WalkMemoryBytes() const {
  uint64_t bytes = sizeof(*this) + sizeof(Impl);
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    bytes += impl_->buckets[b].memory_bytes();
  }
  return bytes;
}

uint64_t Index::pinned_bytes() const { return impl_->pinned->bytes(); }

ViewRegistry& Index::views() const { return impl_->pinned->views(); }

Status Index::Prepare(uint32_t bucket) { return impl_->buckets[bucket].Prepare(); }

void Index::OnAppend(uint32_t bucket, const KeyRecord& record) noexcept {
  impl_->buckets[bucket].OnAppend(record);
}

}  // namespace engine_race
