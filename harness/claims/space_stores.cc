#include "harness/claims/space_stores.h"

#include "harness/load/store_runs.h"

namespace engine_race::harness {

SpaceShape SpaceShape::Below(const std::string& name) const {
  SpaceShape below = *this;
  below.dir += "/" + name;
  return below;
}

Status FillStore(const SpaceShape& shape, const SpaceRecords& records, Store* store) {
  TimedPoint unused;
  return WriteRecords(PutInto(store), records.keys(), records.values(), shape.thread_count,
                      &unused);
}

}  // namespace engine_race::harness
