// Lookups of many keys, one by one and in batches: by the engine's index, and by flat arrays with
// the same keys.
//
// Each call adds the slots of all keys to *slot_sum, and looks up no more once a key is not found.
//
// Thread-safe but for MakeFlatIndex.
#ifndef HARNESS_LAB_INDEX_FINDS_H_
#define HARNESS_LAB_INDEX_FINDS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/log/bucket_log.h"
#include "harness/lab/flat_index.h"

namespace engine_race::lab {

// Flat arrays with the records of a log, each key of which has one record. Before there is an index
// over the log: reading an entry ends the log's reports to it.
engine_race::Status MakeFlatIndex(engine_race::BucketLog* log, std::unique_ptr<FlatIndex>* flat);

// The lookups of a reader: each inside the epoch. kIncomplete if a block is in no frame.
engine_race::Status FindEach(const engine_race::Index& index, engine_race::l1::EpochManager* epochs,
                             std::span<const uint64_t> keys, uint64_t* slot_sum);
// The lookups of one MultiRead.
engine_race::Status FindTogether(const engine_race::Index& index,
                                 engine_race::l1::EpochManager* epochs,
                                 std::span<const uint64_t> keys, uint64_t* slot_sum);
engine_race::Status FindEach(const FlatIndex& flat, std::span<const uint64_t> keys,
                             uint64_t* slot_sum);
// At most FlatIndex::kBatchKeys keys.
engine_race::Status FindTogether(const FlatIndex& flat, std::span<const uint64_t> keys,
                                 uint64_t* slot_sum);

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_INDEX_FINDS_H_
