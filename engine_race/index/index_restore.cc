#include "engine_race/index/index_restore.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/parallel.h"
#include "engine_race/index/bucket_claim.h"
#include "engine_race/index/index_tail.h"
#include "engine_race/log/index_coverage.h"

namespace engine_race {
namespace {

// Threads wait for reads of single pages here, so there are more of them than CPUs.
constexpr uint32_t kRestoreThreads = 16;
// A thread takes this many neighbouring buckets a turn at most, and reads their staged entries
// together.
constexpr uint32_t kMaxBucketsPerTurn = 32;
// The fewest turns of a thread. In small stores a turn has fewer buckets, so that all threads end
// at about the same time.
constexpr uint32_t kMinTurnsPerThread = 2;
// Tails are held in memory: 48 bytes a record, in as many threads.
constexpr uint64_t kMinTail = 4096;
constexpr uint64_t kMaxTail = 128 << 10;
constexpr uint64_t kTailFraction = 4;
// While the index exceeds its memory, deltas of this size are merged at once.
constexpr uint32_t kMergedDelta = 64;

BucketMoment SinceOf(const format::IndexCoverage& coverage) {
  return {coverage.record_count, coverage.births};
}

}  // namespace

Status IndexRestore::RestoreAll() {
  // There was no root. The build reads every bucket.
  if (std::all_of(
          root_.coverages.begin(), root_.coverages.end(),
          [](const format::IndexCoverage& coverage) { return coverage.record_count == 0; })) {
    if (context_.log().RecordCount() > 0) {
      context_.log().reader().PrefetchStagedKeys(0, context_.bucket_count());
    }
    return Status::Ok();
  }
  const Status status = ForEachBucket(kRestoreThreads, [this](uint32_t bucket) {
    bool restored = false;
    ENGINE_RACE_RETURN_IF_ERROR(RestoreOne(bucket, &restored));
    if (restored) context_.MarkRestored(bucket);
    return Status::Ok();
  });
  ENGINE_RACE_RETURN_IF_ERROR(status);
  Report();
  return Status::Ok();
}

Status IndexRestore::ForEachBucket(uint32_t thread_count,
                                   FunctionRef<Status(uint32_t bucket)> restore) const {
  const uint32_t bucket_count = context_.bucket_count();
  const uint32_t buckets_per_turn =
      std::clamp(bucket_count / (kMinTurnsPerThread * thread_count), 1U, kMaxBucketsPerTurn);
  std::atomic<uint32_t> next{0};
  const auto work = [&](uint32_t worker) {
    if (worker > 0) context_.log().placement().EnterBuildThread();
    while (true) {
      // Relaxed: each bucket must only be handed out once.
      const uint32_t first = next.fetch_add(buckets_per_turn, std::memory_order_relaxed);
      if (first >= bucket_count) return Status::Ok();
      const uint32_t count = std::min(buckets_per_turn, bucket_count - first);
      context_.log().reader().PrefetchStagedKeys(first, count);
      for (uint32_t b = first; b < first + count; ++b) ENGINE_RACE_RETURN_IF_ERROR(restore(b));
    }
  };
  const uint32_t turn_count = (bucket_count - 1) / buckets_per_turn + 1;
  return RunParallel("er-restore", std::min(thread_count, turn_count), work);
}

bool IndexRestore::MayRestoreAll() const {
  for (uint32_t b = 0; b < context_.bucket_count(); ++b) {
    if (!MayHold(b) && !IsEmpty(b)) return false;
  }
  return true;
}

bool IndexRestore::IsEmpty(uint32_t bucket) const {
  const BucketLog& log = context_.log();
  // A recovery may have taken the coverage out of the root and left extents of records that are
  // lost.
  return log.RecordCount(bucket) == 0 && root_.coverages[bucket].record_count == 0 &&
         root_.ExtentsOf(bucket).empty() && !log.BucketDamaged(bucket);
}

bool IndexRestore::MayHold(uint32_t bucket) const {
  const BucketLog& log = context_.log();
  const BucketMoment since = SinceOf(root_.coverages[bucket]);
  return since.record_count > 0 && since.record_count <= log.RecordCount(bucket) &&
         !log.BucketDamaged(bucket) &&
         log.reader().CountSince(bucket, since) <= MaxTail(log, bucket, since);
}

bool IndexRestore::Holds(uint32_t bucket) const {
  if (IsEmpty(bucket)) return true;
  if (!MayHold(bucket)) return false;
  const BucketLog& log = context_.log();
  const auto read_entry = [&](uint64_t sequence, format::KeyEntry* entry) {
    return log.reader().ReadKeyEntry(bucket, sequence, entry);
  };
  BucketMoment now;
  log.reader().WithBucketLocked(bucket, [&] { now = log.LockedMomentOf(bucket); });
  return CoverageHolds(log.store_id(), root_.root_id, bucket, root_.coverages[bucket], now,
                       read_entry);
}

Status IndexRestore::RestoreOne(uint32_t bucket, bool* restored) noexcept {
  *restored = false;
  size_t adopted_count = 0;
  Status status = Guarded([&] { return TryRestore(bucket, &adopted_count, restored); });
  if (*restored) return Status::Ok();
  context_.Undo(bucket);
  root_.coverages[bucket] = {};
  const auto extents = root_.ExtentsOf(bucket);
  if (status.ok() && !extents.empty()) refused_.fetch_add(1, std::memory_order_relaxed);
  // Runs that were made for extents have been discarded.
  for (const format::IndexExtent& extent : extents.subspan(adopted_count)) {
    paging_.DiscardNamed(extent);
  }
  return status;
}

// kOutOfMemory. Without a failure, and not restored: the bucket is to be built.
Status IndexRestore::TryRestore(uint32_t bucket, size_t* adopted_count, bool* restored) {
  if (!Holds(bucket)) return Status::Ok();
  BucketCut cut;
  const BucketMoment since = SinceOf(root_.coverages[bucket]);
  const uint64_t first_sequence = context_.log().reader().FirstSince(bucket, since);
  const Status is_cut = context_.Cut(bucket, first_sequence, &cut);
  // Rows may be born between these calls.
  if (is_cut.ok() && cut.table.FirstSince(since) < first_sequence) return Status::Ok();
  if (is_cut.ok()) return Install(bucket, cut, adopted_count, restored);
  return is_cut.code() == Code::kOutOfMemory ? is_cut : Status::Ok();
}

// Merges the tail that came into deltas. They wait for the keeper if that fails.
void IndexRestore::MergeTail(uint32_t bucket) {
  // As many merges at once as writers may run, because each takes some MiB.
  paging_.writer_merges().acquire();
  (void)Guarded([&] {
    BucketIndex& index = context_.bucket(bucket);
    const BucketClaim claim(context_.log(), bucket, &index);
    if (!claim.held()) return Status::Ok();
    const auto locked = [&](FunctionRef<void()> work) {
      context_.log().reader().WithBucketLocked(bucket, work);
    };
    l1::ExtentImage image;
    ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(&image));
    return index.MergePaged(kMergedDelta, &image, locked);
  });
  paging_.writer_merges().release();
}

// Reads what IndexTail::Read does for the extents of the bucket.
Status IndexRestore::ReadTail(uint32_t bucket, const BucketCut& cut, const BucketMoment& since,
                              std::vector<IndexEntry>* records, HeldSlots* held, bool* is_good) {
  uint64_t oldest_births = since.births;
  for (const format::IndexExtent& extent : root_.ExtentsOf(bucket)) {
    oldest_births = std::min(oldest_births, extent.births);
  }
  std::unique_ptr<RowReads> reads = reads_.Take();
  if (reads == nullptr) {
    reads =
        std::make_unique<RowReads>(context_.options().io_backend, context_.log().failed_backends());
  }
  IndexTail tail(context_.log(), bucket, cut, since, reads.get());
  ENGINE_RACE_RETURN_IF_ERROR(tail.Read(oldest_births, records, held, is_good));
  reads_.Give(std::move(reads));
  return Status::Ok();
}

Status IndexRestore::Install(uint32_t bucket, const BucketCut& cut, size_t* adopted_count,
                             bool* restored) {
  const BucketMoment since = SinceOf(root_.coverages[bucket]);
  std::vector<IndexEntry> records;
  bool is_good = true;
  std::shared_ptr<HeldSlots> held;
  if (cut.table.has_rows()) held = std::make_shared<HeldSlots>(cut.table);
  ENGINE_RACE_RETURN_IF_ERROR(ReadTail(bucket, cut, since, &records, held.get(), &is_good));
  if (!is_good) return Status::Ok();
  BucketIndex::Row parts;
  for (const format::IndexExtent& extent : root_.ExtentsOf(bucket)) {
    parts.push_back(std::make_unique<Part>());
    parts.back()->births = extent.births;
    ENGINE_RACE_RETURN_IF_ERROR(paging_.AdoptNamed(extent, held, &parts.back()->extent));
    ++*adopted_count;
  }
  ENGINE_RACE_RETURN_IF_ERROR(context_.bucket(bucket).Install(
      std::move(parts), /*damaged=*/false, {records, since, cut.table.births()}));
  *restored = true;
  if (paging_.HasLargeDeltas()) MergeTail(bucket);
  return Status::Ok();
}

void IndexRestore::Report() const {
  const uint32_t refused = refused_.load(std::memory_order_relaxed);
  if (refused == 0) return;
  Log(context_.options().log, LogLevel::kInfo,
      "the index on disk does not cover " + std::to_string(refused) +
          " buckets as they are now: they are built from their key logs");
}

uint64_t MaxTail(const BucketLog& log, uint32_t bucket, const BucketMoment& since) {
  const uint64_t covered_count = std::min(since.record_count, log.SlotEnd(bucket));
  return std::clamp(covered_count / kTailFraction, kMinTail, kMaxTail);
}

Status OpenIndexRoot(BuildContext* context, Paging* paging, l1::IndexRoot* root) {
  const BucketLog& log = context->log();
  // The writer of a store that is followed may replace extents at any time.
  Status status = log.follows() ? Status::NotFound()
                                : l1::LoadIndexRoot(log.directory_fd(), log.ids(),
                                                    context->bucket_count(), root);
  if (status.ok()) status = paging->store().Reserve(root->extents);
  if (status.ok()) {
    paging->BeginCommit();
    paging->EndCommit(Paging::CommitEnd::kStored, *root);
    return Status::Ok();
  }
  // Memory may be there when the index is built the next time.
  if (status.code() == Code::kOutOfMemory) return status;
  *root = l1::IndexRoot();
  root->coverages.resize(context->bucket_count());
  if (status.code() != Code::kNotFound) {
    Log(context->options().log, LogLevel::kWarning,
        "the index is built from the key logs: " + status.ToString());
    // Its extents are about to be overwritten.
    status = paging->may_write() ? l1::RemoveIndexRoot(log.directory_fd()) : Status::Ok();
    if (!status.ok()) Log(context->options().log, LogLevel::kWarning, status.ToString());
  }
  return paging->store().Reserve({});
}

}  // namespace engine_race
