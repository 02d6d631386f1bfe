// Writes the root of an index: which extents stand for how many records of each bucket.
//
// A bucket with a run that is in no extent keeps what the root before says of it.
//
// Thread safety: every call from any thread. Lock order: commit_mutex_, then the log's lock of a
// bucket, then the locks of Paging and of the bucket's index.
#ifndef ENGINE_RACE_INDEX_ROOT_WRITER_H_
#define ENGINE_RACE_INDEX_ROOT_WRITER_H_

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/paging.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class RootWriter {
 public:
  // All outlive it. `root` is the root that the buckets were restored from.
  RootWriter(BucketLog* log, mode_t file_mode, std::span<BucketIndex> buckets, Paging* paging,
             l1::IndexRoot root);
  RootWriter(const RootWriter&) = delete;
  RootWriter& operator=(const RootWriter&) = delete;

  // Flushes the extents and writes a root that names them, durably. Writes nothing if it would say
  // the same as the root on disk, unless it is in doubt which that is. With `only_extents` also if
  // it would name the same extents, and no coverage has shrunk. kFull, kIOError, kOutOfMemory: the
  // root on disk is the one before, or the new one, not durable.
  Status Commit(bool only_extents);
  // Has the next root name no extents of the bucket, unless they are new ones.
  void Forget(uint32_t bucket);

 private:
  Status DescribeBucket(uint32_t bucket, const l1::IndexRoot& before, l1::IndexRoot* root);

  BucketLog& log_;
  const mode_t file_mode_;
  const std::span<BucketIndex> buckets_;
  Paging& paging_;

  std::mutex commit_mutex_;
  // Under commit_mutex_: the last root that was stored, and the check of the last entry that it
  // covers of each bucket.
  l1::IndexRoot root_;
  std::vector<uint64_t> last_checks_;
  // entry_end_counts_[b]: the end count whose last entry has last_checks_[b]; 0: none was read.
  std::vector<uint64_t> entry_end_counts_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_ROOT_WRITER_H_
