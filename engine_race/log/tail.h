// The records of a bucket past its synced watermark, as a power loss has left them.
//
// Such a record may lie in the logs, in its staging place or in the commit journal. Its key and its
// value may lie apart. Any copy may be torn, missing or stale. A copy that verifies is the record:
// no other counted one has had its sequence number. The journal holds only records that count.
// Logs also hold records of large batches. Those of a committed one are below the synced watermark,
// so any others count for nothing. Staging also holds records of batches that were never committed.
// So a staged entry counts below the bucket's count and below the end of what the journal holds of
// it. The bucket ends at the first number that has no record.
//
// One thread. Changes nothing.
// Owner of its buffers. Invariant: the cut is at the synced watermark or behind it.
#ifndef ENGINE_RACE_LOG_TAIL_H_
#define ENGINE_RACE_LOG_TAIL_H_

#include <cstdint>
#include <functional>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

struct TailRecord {
  // Its sequence number; record.slot is not set.
  uint64_t sequence = 0;
  KeyRecord record;
  format::KeyEntry entry;
  const char* value = nullptr;  // null for a tombstone; valid during the call
  bool key_in_log = false;
  bool value_in_log = false;
};
using TailFn = std::function<Status(const TailRecord&)>;

class TailReader {
 public:
  // Keeps references to all three.
  TailReader(const StoreFiles& files, const Staging& staging, const JournalReplay& journal)
      : files_(files), staging_(staging), journal_(journal) {}

  Status Init();

  // Visits the records from state.synced_watermark on, in order of sequence number. *cut is the
  // number after the last one.
  Status Walk(uint32_t bucket, const BucketState& state, const TailFn& visit, uint64_t* cut);

 private:
  // Values are read by so many bytes, or one by one.
  static constexpr uint64_t kPieceBytes = uint64_t{512} << 10;

  Status LoadKeys(uint64_t first_in_page);
  bool FindEntry(uint64_t sequence, TailRecord* found) const;
  Status FindValue(const char* logged, TailRecord* found);
  Status WalkPage(uint64_t begin, uint64_t page_end, const TailFn& visit, uint64_t* cut);

  const StoreFiles& files_;
  const Staging& staging_;
  const JournalReplay& journal_;
  Region logged_keys_;
  Region staged_keys_;
  uint64_t piece_records_ = 0;
  Region logged_values_;
  Region other_value_;
  // Of the bucket at hand.
  uint32_t bucket_ = 0;
  BucketState state_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_TAIL_H_
