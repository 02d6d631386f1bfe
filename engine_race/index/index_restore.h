// Opens the index from its extents: what the root on disk covers is not read from the key logs.
//
// A bucket is restored if its coverage holds: see log/index_coverage.h. Records that came since are
// read from the log and added to the deltas. Every other bucket is left to the build, and the log
// callback hears how many there are. A bucket without records needs no coverage.
//
// Thread safety: RestoreOne from any thread, for different buckets. ForEachBucket and Report beside
// it, from one thread. OpenIndexRoot, MayRestoreAll and RestoreAll before any other thread knows
// the index. IndexRestore owns the queues and buffers that it reads rows with. Invariant: a bucket
// that RestoreOne could not restore has no coverage in this root. RootWriter has a copy of the
// root: see RootWriter::Forget.
#ifndef ENGINE_RACE_INDEX_INDEX_RESTORE_H_
#define ENGINE_RACE_INDEX_INDEX_RESTORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/spares.h"
#include "engine_race/base/status.h"
#include "engine_race/index/build.h"
#include "engine_race/index/paging.h"
#include "engine_race/index/row_reads.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/log/append_listener.h"

namespace engine_race {

// Reads the root on disk and takes the places of its extents. An empty *root where there is none
// that can be used. A failure means that the whole build must fail.
Status OpenIndexRoot(BuildContext* context, Paging* paging, l1::IndexRoot* root);

class IndexRestore {
 public:
  // `root` is that of OpenIndexRoot. All outlive it.
  IndexRestore(BuildContext* context, Paging* paging, l1::IndexRoot* root)
      : context_(*context), paging_(*paging), root_(*root) {}

  // Restores what can be restored and marks it in the context. A failure means that the whole build
  // must fail.
  Status RestoreAll();
  // Whether every bucket with records can be restored, by the counts alone. No I/O.
  bool MayRestoreAll() const;
  // Restores a bucket, or undoes it and takes its coverage out of the root. kOutOfMemory.
  Status RestoreOne(uint32_t bucket, bool* restored) noexcept;
  // Calls restore() for every bucket, from `thread_count` threads at most. Reads the staged entries
  // of neighbouring buckets together before. Returns the first failure, after which some buckets
  // were left out. May throw std::bad_alloc before the first call.
  Status ForEachBucket(uint32_t thread_count, FunctionRef<Status(uint32_t bucket)> restore) const;
  // Tells the log callback how many buckets could not be restored.
  void Report() const;
  // Keeps no queues and buffers for the next bucket from now on. From any thread.
  void DropReads() noexcept { reads_.Drop(); }

 private:
  // Whether the coverage may hold, by the counts alone. No I/O.
  bool MayHold(uint32_t bucket) const;
  // Whether neither the log nor the root has records of the bucket.
  bool IsEmpty(uint32_t bucket) const;
  // False: the bucket is to be built.
  bool Holds(uint32_t bucket) const;
  // TryRestore and Install set *adopted_count to the number of extents that they made runs of.
  Status TryRestore(uint32_t bucket, size_t* adopted_count, bool* restored);
  Status Install(uint32_t bucket, const BucketCut& cut, size_t* adopted_count, bool* restored);
  Status ReadTail(uint32_t bucket, const BucketCut& cut, const BucketMoment& since,
                  std::vector<IndexEntry>* records, HeldSlots* held, bool* is_good);
  void MergeTail(uint32_t bucket);

  BuildContext& context_;
  Paging& paging_;
  l1::IndexRoot& root_;
  std::atomic<uint32_t> refused_{0};
  Spares<RowReads> reads_;
};

// How many records of a bucket may have come since the moment that its extents cover. A bucket with
// more is built from its key log.
uint64_t MaxTail(const BucketLog& log, uint32_t bucket, const BucketMoment& since);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_RESTORE_H_
