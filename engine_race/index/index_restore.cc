#include "engine_race/index/index_restore.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/round_up.h"
#include "engine_race/index/bucket_claim.h"
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

}  // namespace

Status IndexRestore::RestoreAll() {
  // There was no root. The build reads every bucket.
  if (std::all_of(
          root_.coverages.begin(), root_.coverages.end(),
          [](const format::IndexCoverage& coverage) { return coverage.record_count == 0; })) {
    context_.log().PrefetchStagedKeys(0, context_.bucket_count());
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
      context_.log().PrefetchStagedKeys(first, count);
      for (uint32_t b = first; b < first + count; ++b) ENGINE_RACE_RETURN_IF_ERROR(restore(b));
    }
  };
  const uint32_t turn_count = (bucket_count - 1) / buckets_per_turn + 1;
  return RunParallel("er-restore", std::min(thread_count, turn_count), work);
}

bool IndexRestore::MayRestoreAll() const {
  bool has_covered = false;
  for (uint32_t b = 0; b < context_.bucket_count(); ++b) {
    if (MayHold(b)) {
      has_covered = true;
    } else if (!IsEmpty(b)) {
      return false;
    }
  }
  return has_covered;
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
  const uint64_t covered_count = root_.coverages[bucket].record_count;
  const uint64_t record_count = log.RecordCount(bucket);
  // The coverage goes by sequence number and the extents by slot.
  return covered_count > 0 && covered_count <= record_count && !log.BucketDamaged(bucket) &&
         !log.HasRows(bucket) && record_count - covered_count <= MaxTail(covered_count);
}

bool IndexRestore::Holds(uint32_t bucket) const {
  if (IsEmpty(bucket)) return true;
  if (!MayHold(bucket)) return false;
  const BucketLog& log = context_.log();
  const auto read_entry = [&](uint64_t slot, format::KeyEntry* entry) {
    return log.ReadKeyEntry(bucket, slot, entry).ok();
  };
  return CoverageHolds(log.store_id(), root_.root_id, bucket, root_.coverages[bucket],
                       log.RecordCount(bucket), read_entry);
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
  const Status is_cut = context_.Cut(bucket, root_.coverages[bucket].record_count, &cut);
  // Before the cut records may have been moved since the look at the rows. Nobody was told.
  if (is_cut.ok() && cut.table.has_rows()) return Status::Ok();
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
      context_.log().WithBucketLocked(bucket, work);
    };
    l1::ExtentImage image;
    ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(&image));
    return index.MergePaged(kMergedDelta, &image, locked);
  });
  paging_.writer_merges().release();
}

Status IndexRestore::Install(uint32_t bucket, const BucketCut& cut, size_t* adopted_count,
                             bool* restored) {
  std::vector<IndexEntry> tail;
  bool is_good = true;
  ENGINE_RACE_RETURN_IF_ERROR(ReadTail(bucket, cut, &tail, &is_good));
  if (!is_good) return Status::Ok();
  BucketIndex::Row parts;
  for (const format::IndexExtent& extent : root_.ExtentsOf(bucket)) {
    parts.push_back(std::make_unique<Part>());
    ENGINE_RACE_RETURN_IF_ERROR(paging_.AdoptNamed(extent, &parts.back()->extent));
    ++*adopted_count;
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.bucket(bucket).Install(std::move(parts), /*damaged=*/false, tail));
  *restored = true;
  if (paging_.HasLargeDeltas()) MergeTail(bucket);
  return Status::Ok();
}

// *is_good: every entry is intact. Which keys a damaged entry may hide, only a build from the whole
// key log finds out.
Status IndexRestore::ReadTail(uint32_t bucket, const BucketCut& cut, std::vector<IndexEntry>* tail,
                              bool* is_good) const {
  const BucketLog& log = context_.log();
  const uint64_t covered = cut.first_sequence;
  const EntryCodec codec = log.codec(bucket);
  const KeyRange keys = log.geometry().KeysOf(bucket);
  tail->reserve(cut.record_count - covered);
  const auto add = [&](const format::KeyEntry& entry, uint64_t slot) {
    KeyRecord record;
    *is_good =
        *is_good && cut.table.Decode(codec, entry, slot, &record) && keys.Contains(record.key);
    tail->push_back({record.key, ValueRef(record)});
  };
  if (covered < cut.logged_key_watermark) {
    const uint64_t per_page = kIoAlignment / format::kKeyEntryBytes;
    const uint64_t first = covered / per_page * per_page;
    const uint64_t bytes = (cut.logged_key_watermark - first) * format::kKeyEntryBytes;
    Region memory;
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(RoundUp(bytes, kIoAlignment), /*huge_pages=*/false, &memory));
    if (!log.KeyFile(bucket).Read(memory.data(), bytes, log.KeyOffset(bucket, first)).ok()) {
      *is_good = false;
      return Status::Ok();
    }
    const auto* const entries = reinterpret_cast<const format::KeyEntry*>(memory.data());
    for (uint64_t slot = covered; slot < cut.logged_key_watermark && *is_good; ++slot) {
      add(entries[slot - first], slot);
    }
  }
  for (size_t i = 0; i < cut.staged_keys.size() && *is_good; ++i) {
    add(cut.staged_keys[i], cut.first_staged() + i);
  }
  return Status::Ok();
}

void IndexRestore::Report() const {
  const uint32_t refused = refused_.load(std::memory_order_relaxed);
  if (refused == 0) return;
  Log(context_.options().log, LogLevel::kInfo,
      "the index on disk does not cover " + std::to_string(refused) +
          " buckets as they are now: they are built from their key logs");
}

uint64_t MaxTail(uint64_t covered_count) {
  return std::clamp(covered_count / kTailFraction, kMinTail, kMaxTail);
}

Status OpenIndexRoot(BuildContext* context, Paging* paging, l1::IndexRoot* root) {
  const BucketLog& log = context->log();
  Status status = l1::LoadIndexRoot(log.directory_fd(), log.ids(), context->bucket_count(), root);
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
    status = l1::RemoveIndexRoot(log.directory_fd());
    if (!status.ok()) Log(context->options().log, LogLevel::kWarning, status.ToString());
  }
  return paging->store().Reserve({});
}

}  // namespace engine_race
