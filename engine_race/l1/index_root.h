// The root of the index on disk: which extents there are, and what each bucket's extents cover.
//
// The root is replaced as a whole, atomically and durably. Nothing acknowledged depends on it: a
// root that cannot be used costs only the time to build the index from the key logs.
//
// Thread safety: stateless functions over an open directory that the caller owns and has locked.
#ifndef ENGINE_RACE_L1_INDEX_ROOT_H_
#define ENGINE_RACE_L1_INDEX_ROOT_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/format.h"
#include "engine_race/log/store_ids.h"

namespace engine_race::l1 {

// A loaded root takes 40 bytes an extent and 16 bytes a bucket.
struct IndexRoot {
  // Random, another one for each root that is stored. Checks of coverages depend on it.
  uint64_t root_id = 0;
  // One for each bucket. The file's checksum leaves them out: the caller compares each check.
  std::vector<format::IndexCoverage> coverages;
  // In order of bucket and key. Those of one bucket do not overlap.
  std::vector<format::IndexExtent> extents;

  // Those of one bucket.
  std::span<const format::IndexExtent> ExtentsOf(uint32_t bucket) const;
};

// kNotFound: there is no root. kCorruption: it is damaged, of another store or of another number of
// buckets. kNotSupported: it is of another version. kIOError, kOutOfMemory. A failure leaves *root
// empty. A loaded root obeys all that IndexRoot promises. Each place is named once, and every
// extent has a generation and 1 to format::kIndexExtentRecords records.
Status LoadIndexRoot(int dir_fd, const StoreIds& ids, uint32_t bucket_count, IndexRoot* root);

// Replaces the root, or makes the first. The extents must be durable before. root.root_id is one
// that no root of the store had. kFull, kIOError: the old root is still there, or with *is_replaced
// either of them, because the new one may not be durable.
Status StoreIndexRoot(int dir_fd, const StoreIds& ids, mode_t file_mode, const IndexRoot& root,
                      bool* is_replaced);

// Removes the root durably. A missing one is no error.
Status RemoveIndexRoot(int dir_fd);

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_INDEX_ROOT_H_
