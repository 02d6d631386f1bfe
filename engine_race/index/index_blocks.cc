// Blocks of paged runs: where a lookup reads them, what it does with them, and what happens when
// one cannot be read.
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/index/bucket_claim.h"
#include "engine_race/index/build.h"
#include "engine_race/index/index_impl.h"
#include "engine_race/index/run_extent.h"

namespace engine_race {
namespace {

// Blocking reads of a block, after the caller's own, before its bucket is lost.
constexpr int kReadAttempts = 2;

// Runs are listed until they have this many bytes, and two at least. To read so much takes the
// device longer than all that is in its queue.
constexpr uint64_t kAheadBytes = 1024 * 1024;
// Buckets that are looked at. Some have flat runs, or their runs in frames.
constexpr uint32_t kMostAheadBuckets = 64;

}  // namespace

std::unique_ptr<RunSlices> Index::TakeAhead() const noexcept {
  if (!impl_->paging->has_paged_runs() || !impl_->ahead_permits->try_acquire()) return nullptr;
  std::unique_ptr<RunSlices> ahead(new (std::nothrow) RunSlices(impl_->ahead_permits));
  if (ahead == nullptr) impl_->ahead_permits->release();
  return ahead;
}

void Index::ReadAhead(uint64_t first_key, uint64_t last_key, RunsAhead* ahead) const noexcept {
  if (!impl_->paging->has_paged_runs()) return;
  // Listed first: a read may wait, and must not wait under a bucket's lock.
  struct Extent {
    l1::ExtentId id;
    uint32_t block_count = 0;
  };
  std::array<Extent, RunsAhead::kMaxExtents> extents;
  size_t count = 0;
  uint64_t bytes = 0;
  const auto list = [&](const PagedRun& run) {
    if (count == extents.size() || (count >= 2 && bytes >= kAheadBytes)) return false;
    extents[count++] = {run.id, run.block_count + 1};
    bytes += format::IndexExtentBytesOf(run.record_count);
    return true;
  };
  const uint32_t last = impl_->BucketOf(last_key);
  uint32_t bucket = NextHeld(impl_->BucketOf(first_key));
  for (uint32_t i = 0; i < kMostAheadBuckets && bucket <= last; ++i) {
    if (!impl_->buckets[bucket].ForEachCold(first_key, last_key, list)) break;
    bucket = NextHeld(bucket + 1);
  }
  if (count == 0 || !ahead->GoTo(extents[0].id)) return;
  for (size_t i = 0; i < count; ++i) {
    if (!ahead->Begin(impl_->paging->store(), extents[i].id, extents[i].block_count)) return;
  }
}

void Index::Lose(uint32_t bucket, const Status& why, FunctionRef<bool()> is_bad) const {
  const std::lock_guard lock(impl_->lose_mutex);
  BucketIndex& index = impl_->buckets[bucket];
  const Status status = BuildContext::UnreadStatus(bucket, why);
  std::optional<BucketClaim> claim;
  // Another thread may be moving the bucket's runs, or may have dropped it just now.
  while (is_bad() && !claim.emplace(*impl_->log, bucket, &index).held()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!is_bad()) return;
  const bool rests = impl_->paging->faults().NoteLoss(&index);
  impl_->unread.AddLost(bucket, status, [&] {
    // First of all: a reader must not find the old record of a key that is written from here on.
    index.HideLost();
    impl_->log->reader().SuspendListener(bucket);
    index.Lose(rests);
    claim.reset();
    impl_->roots->Forget(bucket);
  });
  Log(impl_->options.log, LogLevel::kWarning,
      status.ToString() + "; it is built again from its key log");
}

// The call that needs the bucket next finds it hidden. See DropHidden.
void Index::OnDetach(uint32_t bucket) noexcept { impl_->buckets[bucket].HideLost(); }

void Index::DropHidden(uint32_t bucket) const {
  BucketIndex& index = impl_->buckets[bucket];
  if (!impl_->unread.WasRead(bucket) || !index.is_unread()) return;
  std::optional<BucketClaim> claim;
  while (!claim.emplace(*impl_->log, bucket, &index, BucketClaim::Of::kAny).held()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto is_hidden = [&] { return impl_->unread.WasRead(bucket) && index.is_unread(); };
  impl_->unread.AddLost(
      bucket, Status(Code::kBusy, "the writer of the store uses slots of the bucket again"),
      [&] {
        // Without memory OnReuse has hidden the bucket, but has not detached it.
        impl_->log->reader().SuspendListener(bucket);
        index.Lose(/*rests=*/false);
      },
      is_hidden);
}

void Index::OnReuse(uint32_t bucket) noexcept {
  const Status hidden = Guarded([&] {
    impl_->unread.HideFromOlder(bucket, views().StampWrite().version);
    return Status::Ok();
  });
  if (!hidden.ok()) impl_->buckets[bucket].HideLost();
}

io::ReadRequest Index::RequestFor(const BlockLookup& lookup, char* buffer) const {
  ENGINE_RACE_ASSERT(lookup.is_wanting());
  const auto location = impl_->paging->store().Locate(lookup.extent(), lookup.block());
  io::ReadRequest request;
  request.fd = location.file->fd();
  request.size_bytes = format::kIndexBlockBytes;
  request.offset = location.offset;
  request.buffer = buffer;
  return request;
}

Status Index::Accept(uint64_t key, char* buffer, bool is_read, BlockLookup* lookup) const noexcept {
  return Guarded([&] { return TakeBlock(key, buffer, is_read, lookup); });
}

Status Index::TakeBlock(uint64_t key, char* buffer, bool is_read, BlockLookup* lookup) const {
  const uint32_t bucket = impl_->BucketOf(key);
  BucketIndex& index = impl_->buckets[bucket];
  Paging& paging = *impl_->paging;
  const l1::ExtentId extent = lookup->extent();
  const uint32_t block = lookup->block();
  const KeyRange keys = impl_->geometry.KeysOf(bucket);
  const auto is_good = [&] {
    return paging.store().IsWhole(extent, block, buffer) &&
           IsSoundBlock(block, buffer, {keys.first, keys.last}, impl_->log->SlotEnd(bucket));
  };
  bool is_taken = is_read && is_good();
  // A read that failed once may succeed, and costs less than a build of the bucket.
  for (int i = 0; i < kReadAttempts && !is_taken && index.HasExtent(extent); ++i) {
    const auto location = paging.store().Locate(extent, block);
    const Status status = location.file->Read(buffer, format::kIndexBlockBytes, location.offset);
    if (status.code() == Code::kOutOfMemory) return status;
    is_taken = status.ok() && is_good();
  }
  if (!is_taken) {
    // A run that was merged meanwhile lies elsewhere, and its place may have been used again.
    Lose(bucket,
         Status::Corruption("key_index: block " + std::to_string(block) + " at place " +
                            std::to_string(extent.place) + " cannot be read"),
         [&] { return index.HasExtent(extent); });
    lookup->Reset();
    return Status::Ok();
  }
  lookup->Hold(buffer);
  if (impl_->frames != nullptr) l1::EpochManager::Guard(impl_->frames->epochs()).CountBlockMiss();
  paging.blocks().Offer(extent, block, buffer, [&](uint32_t frame) {
    return index.SwizzleBlock(key, extent, block, frame);
  });
  if (index.CountsToFlatten(key) && paging.MayFlatten()) paging.Ask(&index, Paging::Work::kFlatten);
  return Status::Ok();
}

Status Index::AwaitBlocks(uint64_t key, BlockLookup* lookup, FunctionRef<Status()> find) const {
  alignas(kIoAlignment) char buffer[format::kIndexBlockBytes];
  while (true) {
    ENGINE_RACE_RETURN_IF_ERROR(Accept(key, buffer, /*is_read=*/false, lookup));
    Status status = find();
    if (status.code() != Code::kIncomplete) return status;
  }
}

}  // namespace engine_race
