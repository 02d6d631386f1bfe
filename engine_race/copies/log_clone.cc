#include "engine_race/copies/log_clone.h"

#include <numeric>

#include "engine_race/base/assert.h"
#include "engine_race/base/sys.h"
#include "engine_race/copies/copied_store.h"
#include "engine_race/log/key_log_cut.h"

namespace engine_race {
namespace {

bool HaveOneShape(const Geometry& a, const Geometry& b) {
  return a.path_count == 0 && b.path_count == 0 && a.bucket_count == b.bucket_count &&
         a.file_count == b.file_count && a.bucket_capacity_records == b.bucket_capacity_records &&
         a.value_group_bytes == b.value_group_bytes && a.key_group_bytes == b.key_group_bytes &&
         a.keys() == b.keys();
}

Status CloneFile(const io::File& from, const io::File& to) {
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::CloneFile(from.fd(), to.fd(), &supported));
  return supported ? Status::Ok()
                   : Status::IOError(to.name() + " cannot share blocks, as another file could");
}

}  // namespace

Status CanCloneLogs(const StoreFiles& source, const StoreFiles& clone, bool* can) {
  *can = HaveOneShape(source.identity.geometry, clone.identity.geometry);
  if (!*can) return Status::Ok();
  return sys::CloneFile(source.key_files[0].fd(), clone.key_files[0].fd(), can);
}

Status CloneLogs(const StoreFiles& source, const std::vector<uint64_t>& record_counts,
                 mode_t file_mode, StoreFiles* clone) {
  const Geometry& geometry = clone->identity.geometry;
  ENGINE_RACE_ASSERT(HaveOneShape(source.identity.geometry, geometry));
  for (uint32_t number = 0; number < geometry.file_count; ++number) {
    ENGINE_RACE_RETURN_IF_ERROR(CloneFile(source.key_files[number], clone->key_files[number]));
    ENGINE_RACE_RETURN_IF_ERROR(CloneFile(source.values.file(number), clone->values.file(number)));
  }
  clone->identity.other_seed_id = source.identity.seed_id();
  // Appends to the source went on: its logs have had records behind the cut.
  std::vector<uint32_t> buckets(geometry.bucket_count);
  std::iota(buckets.begin(), buckets.end(), 0);
  std::vector<BucketState> states(geometry.bucket_count);
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    states[bucket].record_count = record_counts[bucket];
  }
  ENGINE_RACE_RETURN_IF_ERROR(CutKeyLogs({buckets, record_counts, states}, file_mode, clone));
  return WriteCopiedCounts(*clone, record_counts);
}

}  // namespace engine_race
