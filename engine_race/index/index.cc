#include "engine_race/index/index.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/placement.h"
#include "engine_race/index/index_impl.h"

namespace engine_race {

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
  if (impl_->keeper != nullptr) impl_->keeper->Stop();
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b)
    impl_->log->reader().DetachListener(b);
  if (impl_->shared != nullptr) impl_->shared->views().Close();
}

Status Index::Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index,
                    l1::FrameCache* frames, std::function<uint64_t()> limit, Opening opening,
                    std::function<uint64_t()> reads) {
  return Guarded([&] {
    std::unique_ptr<Index> built(new Index());
    {
      // Lookups read the array of buckets, which comes from the heap.
      const PolicyScope scope(log->placement().memory());
      built->impl_ = std::make_unique<Impl>(log, options, frames);
    }
    built->impl_->reads = reads ? std::move(reads) : [] { return uint64_t{0}; };
    ENGINE_RACE_RETURN_IF_ERROR(built->MakeViews());
    ENGINE_RACE_RETURN_IF_ERROR(built->MakePaging(std::move(limit)));
    ENGINE_RACE_RETURN_IF_ERROR(built->Open(opening));
    *index = std::move(built);
    return Status::Ok();
  });
}

Status Index::MakePaging(std::function<uint64_t()> limit) {
  BucketLog& log = *impl_->log;
  std::unique_ptr<l1::ExtentStore> store;
  ENGINE_RACE_RETURN_IF_ERROR(
      l1::ExtentStore::Open(log.directory_fd(), log.store_id(), impl_->options.file_mode,
                            /*writable=*/!impl_->options.read_only, &store));
  if (!limit) limit = [] { return kAutoBytes; };
  impl_->paging = std::make_unique<Paging>(impl_->frames, std::move(store), std::move(limit),
                                           impl_->options.index_memory_bytes,
                                           impl_->shared->part_bytes(), impl_->shared->limbo());
  impl_->shared->set_paging(impl_->paging.get());
  return Status::Ok();
}

l1::FrameCache* Index::frames() const { return impl_->frames; }

l1::EpochManager& Index::epochs() const { return impl_->shared->epochs(); }

Status Index::MakeViews() {
  // Before the registry is made, because this may throw and nothing would close the registry.
  auto shared = std::make_unique<BucketShared>(impl_->log->placement().memory(), impl_->frames);
  ViewRegistry* views = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(ViewRegistry::Create(&views));
  shared->Watch(views);
  shared->set_first_bucket(impl_->buckets.get());
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    impl_->buckets[b].set_shared(shared.get());
  }
  impl_->shared = std::move(shared);
  return Status::Ok();
}

static_assert(Index::kMaxLoads > PagingFaults::kFreeLosses + 1, "the last attempt leaves it flat");

template <typename Lookup>
Status Index::Answer(uint32_t bucket, uint64_t version, const Lookup& lookup) const {
  Code code = lookup();
  for (int i = 0; code == Code::kIOError && i < max_loads(); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(Bring(bucket));
    code = lookup();
  }
  if (impl_->unread.IsHidden(bucket, version)) [[unlikely]] {
    code = Code::kIOError;
  }
  return ToStatus(code, bucket);
}

Status Index::Find(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window,
                   uint64_t version) const {
  // Published runs are what every view shows.
  if (impl_->FindNear(key, window, ref)) [[likely]] {
    return Status::Ok();
  }
  return FindSlowly(key, ref, lookup, version);
}

// Not inlined, so that Find needs no registers saved.
__attribute__((noinline)) Status Index::FindSlowly(uint64_t key, ValueRef* ref, BlockLookup* lookup,
                                                   uint64_t version) const {
  const uint32_t bucket = impl_->BucketOf(key);
  return Answer(bucket, version,
                [&] { return impl_->buckets[bucket].Find(key, ref, lookup, version); });
}

void Index::SetFrameSlots(std::atomic<uint32_t>* slots) {
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    impl_->buckets[b].set_frame_slots(slots);
  }
}

Status Index::FindHot(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window,
                      uint64_t version) const {
  const PublishedRuns* const runs = impl_->buckets[impl_->BucketOf(key)].published();
  if (runs != nullptr && runs->FindNear(key, window, ref)) [[likely]] {
    return Status::Ok();
  }
  return FindHotSlowly(key, ref, lookup, window, version);
}

// Not inlined, like FindSlowly.
__attribute__((noinline)) Status Index::FindHotSlowly(uint64_t key, ValueRef* ref,
                                                      BlockLookup* lookup, const RunWindow& window,
                                                      uint64_t version) const {
  const uint32_t bucket = impl_->BucketOf(key);
  const Code code = impl_->buckets[bucket].FindHot(key, ref, lookup, window, version);
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

template <typename WalkFn>
Status Index::AnswerWalk(uint32_t bucket, uint64_t version, RunSlices* ahead,
                         const WalkFn& walk) const {
  RunSlices of_call;
  RunSlices& slices = ahead == nullptr ? of_call : *ahead;
  slices.BeginCall();
  return Answer(bucket, version, [&] {
    while (true) {
      const Code code = walk(&slices);
      if (code == Code::kOutOfMemory && slices.StopAhead()) continue;
      if (code != Code::kIncomplete) return code;
      const l1::ExtentId extent = slices.extent();
      const uint64_t slot_end = impl_->log->SlotEnd(bucket);
      const Status status = Guarded([&] { return slices.Load(impl_->paging->store(), slot_end); });
      if (status.code() == Code::kOutOfMemory) {
        if (slices.StopAhead()) continue;
        return Code::kOutOfMemory;
      }
      // A run that was merged meanwhile lies elsewhere: the walk begins anew.
      if (!status.ok()) {
        Lose(bucket, status, [&] { return impl_->buckets[bucket].HasExtent(extent); });
      }
    }
  });
}

Status Index::Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                      std::vector<IndexEntry>* entries, bool* complete, uint64_t version,
                      RunSlices* slices) const {
  return AnswerWalk(bucket, version, slices, [&](RunSlices* read) {
    return impl_->buckets[bucket].Collect(first_key, last_key, max_entries, entries, complete,
                                          version, read);
  });
}

Status Index::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                        std::span<uint64_t> keys, size_t* count, RunSlices* ahead) const {
  {
    const l1::EpochManager::Guard guard(impl_->shared->epochs());
    const PublishedRuns* const runs = impl_->buckets[impl_->BucketOf(first_key)].published();
    if (runs != nullptr && runs->FirstKeys(first_key, last_key, keys, count)) [[likely]] {
      return Status::Ok();
    }
  }
  return FirstKeysSlowly(first_key, last_key, version, keys, count, ahead);
}

// Not inlined, like FindSlowly.
__attribute__((noinline)) Status Index::FirstKeysSlowly(uint64_t first_key, uint64_t last_key,
                                                        uint64_t version, std::span<uint64_t> keys,
                                                        size_t* count, RunSlices* ahead) const {
  *count = 0;
  if (first_key > last_key) return Status::Ok();
  const HeldBuckets& held = impl_->shared->held();
  const uint32_t last_bucket = impl_->BucketOf(last_key);
  for (uint32_t b = held.Next(impl_->BucketOf(first_key)); b <= last_bucket; b = held.Next(b + 1)) {
    size_t added = 0;
    const Status status = AnswerWalk(b, version, ahead, [&](RunSlices* slices) {
      return impl_->buckets[b].FirstKeys(first_key, last_key, version, keys.subspan(*count), &added,
                                         slices);
    });
    if (!status.ok()) return *count > 0 ? Status::Ok() : status;
    *count += added;
    if (*count == keys.size()) break;
  }
  return Status::Ok();
}

Status Index::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                       std::span<uint64_t> keys, size_t* count, RunSlices* ahead) const {
  {
    const l1::EpochManager::Guard guard(impl_->shared->epochs());
    const PublishedRuns* const runs = impl_->buckets[impl_->BucketOf(last_key)].published();
    if (runs != nullptr && runs->LastKeys(first_key, last_key, keys, count)) [[likely]] {
      return Status::Ok();
    }
  }
  return LastKeysSlowly(first_key, last_key, version, keys, count, ahead);
}

__attribute__((noinline)) Status Index::LastKeysSlowly(uint64_t first_key, uint64_t last_key,
                                                       uint64_t version, std::span<uint64_t> keys,
                                                       size_t* count, RunSlices* ahead) const {
  *count = 0;
  if (first_key > last_key) return Status::Ok();
  // LastKeys of a bucket fills its keys from the back.
  Status status;
  size_t free = keys.size();
  const HeldBuckets& held = impl_->shared->held();
  const uint32_t first_bucket = impl_->BucketOf(first_key);
  for (uint32_t end = impl_->BucketOf(last_key) + 1; end > first_bucket && free > 0;) {
    const uint32_t b = held.Previous(end - 1);
    if (b == HeldBuckets::kNone || b < first_bucket) break;
    end = b;
    size_t added = 0;
    Status found = AnswerWalk(b, version, ahead, [&](RunSlices* slices) {
      return impl_->buckets[b].LastKeys(first_key, last_key, version, keys.first(free), &added,
                                        slices);
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
         impl_->shared->part_bytes().bytes() + impl_->shared->bytes() +
         impl_->shared->limbo().bytes();
}

uint64_t Index::WalkMemoryBytes() const {
  uint64_t bytes = sizeof(*this) + sizeof(Impl) + impl_->shared->limbo().bytes();
  for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) {
    bytes += impl_->buckets[b].memory_bytes();
  }
  return bytes;
}

uint64_t Index::pinned_bytes() const { return impl_->shared->bytes(); }

uint32_t Index::NextHeld(uint32_t bucket) const noexcept {
  return impl_->shared->held().Next(bucket);
}

ViewRegistry& Index::views() const { return impl_->shared->views(); }

bool Index::HidesFrom(uint64_t version) const { return impl_->unread.HidesAny(version); }

Status Index::Save(uint64_t max_bytes) {
  IndexKeeper* const keeper = impl_->ReadyKeeper();
  if (keeper == nullptr) return Status::OutOfMemory("index: no memory for its keeper");
  return keeper->Save(max_bytes, /*only_extents=*/false);
}

Status Index::Close(uint64_t max_bytes) {
  if (impl_->keeper != nullptr) impl_->keeper->Stop();
  if (max_bytes == 0) return Status::Ok();
  if (impl_->keeper == nullptr) {
    // RestoreRest was refused the memory for the keeper.
    ENGINE_RACE_RETURN_IF_ERROR(StartKeeper());
    impl_->keeper->Stop();
  }
  return Save(max_bytes);
}

Status Index::SaveIfCheap(uint64_t max_bytes) {
  IndexKeeper* const keeper = impl_->ReadyKeeper();
  return keeper == nullptr ? Status::Ok() : keeper->SaveIfCheap(max_bytes);
}

void Index::CheckMemory() noexcept {
  IndexKeeper* const keeper = impl_->ReadyKeeper();
  if (keeper == nullptr) return;
  if (impl_->paging->HasRunsToPage() || impl_->paging->HasLargeDeltas()) keeper->Wake();
}

uint64_t Index::written_bytes() const { return impl_->paging->store().written_bytes(); }
uint64_t Index::disk_bytes() const { return impl_->paging->store().used_bytes(); }

Status Index::CheckRoom() {
  const Status status = impl_->paging->CheckRoom();
  if (status.ok()) return status;
  // The keeper may have gone to sleep before there was anything to write.
  IndexKeeper* const keeper = impl_->ReadyKeeper();
  if (keeper != nullptr && !impl_->paging->faults().is_pausing()) keeper->Wake();
  if (impl_->paging->faults().MayTell()) {
    Log(impl_->options.log, LogLevel::kWarning, "writes are refused: " + status.ToString());
  }
  return status;
}

Status Index::Prepare(uint32_t bucket) { return impl_->buckets[bucket].Prepare(); }

uint64_t Index::CurrentVersion() const noexcept { return views().StampWrite().version; }

bool Index::HasViewIn(uint64_t first, uint64_t end) const noexcept {
  return views().AnyIn(first, end);
}

Status Index::PrepareMany(uint32_t bucket, uint32_t count, KeyFn key_of) {
  return Guarded([&] { return impl_->buckets[bucket].PrepareMany(count, key_of); });
}

// Without views yet, nobody can see half a batch.
void Index::BeginBatch() noexcept { views().BeginBatch(); }

void Index::EndBatch() noexcept { views().EndBatch(); }

void Index::OnAppend(uint32_t bucket, const KeyRecord& record) noexcept {
  // The records of a batch are counted together.
  const uint64_t births = impl_->log->LockedMomentOf(bucket).births;
  impl_->buckets[bucket].OnAppend(record, /*moved=*/false, {record.sequence, births});
}

void Index::OnMove(uint32_t bucket, const KeyRecord& record) noexcept {
  // The row was born last.
  BucketMoment before = impl_->log->LockedMomentOf(bucket);
  --before.births;
  impl_->buckets[bucket].OnAppend(record, /*moved=*/true, before);
}

}  // namespace engine_race
