#include "engine_race/index/root_writer.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/index_coverage.h"

namespace engine_race {
namespace {

// Whether root `a` need not replace root `b`. `only_extents`: it need not if coverages have only
// grown.
bool IsSame(const l1::IndexRoot& a, const l1::IndexRoot& b, bool only_extents) {
  const bool has_same_extents =
      std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), b.extents.end(),
                 [](const format::IndexExtent& x, const format::IndexExtent& y) {
                   return x.generation == y.generation && x.bucket == y.bucket;
                 });
  return has_same_extents &&
         std::equal(a.coverages.begin(), a.coverages.end(), b.coverages.begin(), b.coverages.end(),
                    [&](const format::IndexCoverage& x, const format::IndexCoverage& y) {
                      if (!only_extents) {
                        return x.record_count == y.record_count && x.births == y.births;
                      }
                      // A coverage that has shrunk must be replaced on disk.
                      return x.record_count >= y.record_count && x.births >= y.births;
                    });
}

}  // namespace

RootWriter::RootWriter(BucketLog* log, mode_t file_mode, std::span<BucketIndex> buckets,
                       Paging* paging, l1::IndexRoot root)
    : log_(*log),
      file_mode_(file_mode),
      buckets_(buckets),
      paging_(*paging),
      root_(std::move(root)),
      last_checks_(buckets.size()),
      entry_end_counts_(buckets.size()) {
  root_.coverages.resize(buckets.size());
}

void RootWriter::Forget(uint32_t bucket) {
  const std::lock_guard lock(commit_mutex_);
  root_.coverages[bucket] = {};
}

Status RootWriter::Commit(bool only_extents) {
  const std::lock_guard lock(commit_mutex_);
  l1::IndexRoot next;
  bool is_same = false;
  bool is_replaced = false;
  paging_.BeginCommit();
  const Status stored = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&next.root_id));
    next.coverages.resize(buckets_.size());
    for (uint32_t b = 0; b < buckets_.size(); ++b) {
      ENGINE_RACE_RETURN_IF_ERROR(DescribeBucket(b, root_, &next));
    }
    is_same = !paging_.is_in_doubt() && IsSame(next, root_, only_extents);
    if (is_same) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(paging_.store().Sync());
    // A power loss must not take back a birth that the root covers: another row would get it.
    ENGINE_RACE_RETURN_IF_ERROR(log_.FlushRows());
    return l1::StoreIndexRoot(log_.directory_fd(), log_.ids(), file_mode_, next, &is_replaced);
  });
  using End = Paging::CommitEnd;
  const End end = stored.ok()   ? (is_same ? End::kNotMade : End::kStored)
                  : is_replaced ? End::kInDoubt
                                : End::kFailed;
  paging_.EndCommit(end, next);
  if (end == End::kStored) root_ = std::move(next);
  return stored;
}

// Adds the bucket's extents and coverage to *root. A bucket with a run that is in no extent keeps
// those of the root `before`.
Status RootWriter::DescribeBucket(uint32_t bucket, const l1::IndexRoot& before,
                                  l1::IndexRoot* root) {
  format::IndexCoverage coverage = before.coverages[bucket];
  bool is_whole = false;
  std::vector<format::IndexExtent> extents;
  log_.reader().WithBucketLocked(bucket, [&] {
    const BucketMoment now = log_.LockedMomentOf(bucket);
    BucketMoment since;
    is_whole = buckets_[bucket].Describe(now, &extents, &since);
    if (is_whole) coverage = {since.record_count, since.births, now.record_count, now.births, 0, 0};
  });
  if (!is_whole) {
    const auto old = before.ExtentsOf(bucket);
    extents.assign(old.begin(), old.end());
  }
  if (coverage.record_count == 0) return Status::Ok();
  if (is_whole && entry_end_counts_[bucket] != coverage.end_count) {
    format::KeyEntry last;
    // A bucket whose key log cannot be read is left out.
    if (!log_.reader().ReadKeyEntry(bucket, coverage.end_count - 1, &last).ok())
      return Status::Ok();
    last_checks_[bucket] = last.check;
    entry_end_counts_[bucket] = coverage.end_count;
  }
  if (is_whole) coverage.last_check = last_checks_[bucket];
  coverage.check = CoverageCheck(log_.store_id(), root->root_id, bucket, coverage);
  root->coverages[bucket] = coverage;
  for (format::IndexExtent& extent : extents) {
    extent.bucket = bucket;
    root->extents.push_back(extent);
  }
  return Status::Ok();
}

}  // namespace engine_race
