// How the index learns of records: what a bucket holds when it is cut, and every later append.
//
// Thread safety: the log calls a listener under the lock of the bucket that it names, in the order
// of sequence numbers. The log keeps the pointer until DetachListener; the index owns the listener.
// Invariant: a listener hears of every record of its bucket from its cut on, each once.
#ifndef ENGINE_RACE_LOG_APPEND_LISTENER_H_
#define ENGINE_RACE_LOG_APPEND_LISTENER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"

namespace engine_race {

// Told of each new record of a bucket once the bucket has been cut.
class AppendListener {
 public:
  virtual ~AppendListener() = default;
  // Called before anything of a write is visible: makes room, or refuses the write.
  virtual Status Prepare(uint32_t bucket) = 0;
  // Prepare for `count` records, of which OnAppend tells later: of the records of a batch.
  virtual Status PrepareMany(uint32_t bucket, uint32_t count) {
    static_cast<void>(count);
    return Prepare(bucket);
  }
  // Between these two calls the log tells of records that a view shows whole or not at all. Several
  // threads may be between them. BeginBatch may wait for views that are being taken, and views wait
  // for EndBatch.
  virtual void BeginBatch() noexcept {}
  virtual void EndBatch() noexcept {}
  // Called once the record is staged and counted, before the write is acknowledged.
  virtual void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept = 0;
};

// The content of one bucket, from first_slot on, when it was cut.
struct BucketCut {
  // The staged entries begin here. Entries [first_slot, first_staged()) are to be read from the key
  // log.
  uint64_t first_staged() const { return std::max(first_slot, logged_key_watermark); }

  // The index has the records below this.
  uint64_t first_slot = 0;
  uint64_t record_count = 0;
  // Entries below this are in the key log.
  uint64_t logged_key_watermark = 0;
  // Entries [first_staged(), record_count).
  std::vector<format::KeyEntry> staged_keys;
  // Sequence numbers of the bucket are below this.
  uint64_t sequence_bound = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_APPEND_LISTENER_H_
