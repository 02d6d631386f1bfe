// Streams the key entries of one bucket through several threads, piece by piece, in no particular
// order.
//
// Each thread keeps the reads of its next pieces in flight while it works on the current one.
#ifndef ENGINE_RACE_INDEX_KEY_LOG_STREAM_H_
#define ENGINE_RACE_INDEX_KEY_LOG_STREAM_H_

#include <cstdint>
#include <functional>
#include <span>

#include "engine_race/base/status.h"
#include "engine_race/index/build.h"

namespace engine_race {

// Entries of the slots from `first_slot` on, valid during the call. `lost_count` more slots follow
// that could not be read, because the file ends early.
struct KeyLogPiece {
  // Whether the entry of the slot counts. An entry that is still staged comes in another piece.
  bool Holds(const BucketCut& cut, uint64_t slot) const {
    uint64_t sequence = 0;
    const bool is_logged =
        !cut.table.SequenceOf(slot, &sequence) || sequence < cut.logged_key_watermark;
    return cut.Holds(slot) && is_logged != staged;
  }

  uint32_t worker;
  uint64_t first_slot;
  std::span<const format::KeyEntry> entries;
  uint64_t lost_count;
  bool staged = false;
};
using KeyLogPieceFn = std::function<Status(const KeyLogPiece& piece)>;

// Calls `visit` from `worker_count` threads at once, with at most `pieces_in_flight` pieces in
// memory for each thread. Staged entries make pieces too. Ends with the first failure.
Status StreamKeyLog(BuildContext* context, uint32_t bucket, const BucketCut& cut,
                    uint32_t worker_count, uint32_t pieces_in_flight, const KeyLogPieceFn& visit);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_KEY_LOG_STREAM_H_
