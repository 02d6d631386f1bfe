// Reads of records that are in the logs or still staged, and the cut that the index is built from.
//
// A reader of a staged value pins its place while it copies, so that no later group takes the place
// meanwhile.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_LOG_LOG_READER_H_
#define ENGINE_RACE_LOG_LOG_READER_H_

#include <cstdint>
#include <string>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/log_context.h"

namespace engine_race {

class LogReader {
 public:
  // Works on `context`, which outlives it.
  explicit LogReader(LogContext* context) : context_(*context) {}

  // Reads the value of an acknowledged slot, staged or not, to the beginning of `buffer`. That has
  // Geometry::slot_bytes. Aligned to kIoAlignment, it saves a copy. Not verified. `buffer_bytes`:
  // how many it has if it has more. With ValueLayout::read_bytes no other buffer is needed.
  Status ReadValue(uint32_t bucket, uint64_t slot, char* buffer, uint64_t buffer_bytes = 0) const;
  // CorruptValue unless `value`, which was read from that slot, has the checksum `value_checksum`.
  Status VerifyValue(uint32_t bucket, uint64_t slot, uint32_t value_checksum,
                     const char* value) const {
    if (ValueMatches(value, context_.geometry().value_bytes(), value_checksum)) [[likely]] {
      return Status::Ok();
    }
    return CorruptValue(bucket, slot);
  }
  // CorruptValue is the status for a value that differs from its checksum. LostValue is the status
  // for a value whose segment has no place. Both name file, bucket and slot.
  Status CorruptValue(uint32_t bucket, uint64_t slot) const;
  Status LostValue(uint32_t bucket, uint64_t slot) const;
  // Reads the key entry of an appended record, staged or not. Not verified. kInvalidArgument for a
  // record that the bucket does not have, or has no more.
  Status ReadKeyEntry(uint32_t bucket, uint64_t sequence, format::KeyEntry* entry) const;

  // Before CutBucket of neighbouring buckets: reads their staged entries together. Advice only.
  void PrefetchStagedKeys(uint32_t first_bucket, uint32_t bucket_count) const {
    context_.staging.PrefetchKeys(first_bucket, bucket_count);
  }
  // Before ReadValue of `wanted_count` staged values of a bucket: reads all that are staged
  // together, unless they are many more. Advice only.
  void PrefetchStagedValues(uint32_t bucket, uint64_t wanted_count) const;

  // Hands the bucket's state over to `listener`, which hears of every later record until it is
  // detached. One listener a bucket. The index has the appended records below `first_sequence`
  // already: none of them is read. kInvalidArgument when the bucket has fewer records than that.
  Status CutBucket(uint32_t bucket, uint64_t first_sequence, AppendListener* listener,
                   BucketCut* cut) const;
  // CutBucket that changes no listener.
  Status LookAtBucket(uint32_t bucket, uint64_t first_sequence, BucketCut* cut) const;
  // Tells the listener of no more records until it cuts the bucket anew. It is still asked for its
  // views: reads at a view may be under way.
  void SuspendListener(uint32_t bucket) const;
  // For good, before the listener is destroyed.
  void DetachListener(uint32_t bucket) const;
  // Runs `function` while no writer appends to the bucket: neither Prepare nor OnAppend of its
  // listener runs meanwhile. Lock order: the bucket's lock first, then the locks that a listener
  // takes. So `function` calls nothing of the log, and the caller holds no lock of a listener.
  void WithBucketLocked(uint32_t bucket, FunctionRef<void()> function) const;
  // For a listener that has built a bucket: calls admit() under the bucket's lock. False, and no
  // call, if the listener was detached meanwhile.
  bool IfAttached(uint32_t bucket, FunctionRef<void()> admit) const;

  // See SlotTable.
  uint64_t FirstSince(uint32_t bucket, const BucketMoment& since) const;
  uint64_t CountSince(uint32_t bucket, const BucketMoment& since) const;

 private:
  Status ReadStaged(uint32_t bucket, uint64_t slot, char* buffer, bool* is_read) const;
  Status TakeCut(uint32_t bucket, uint64_t first_sequence, BucketCut* cut) const;
  Status NoSuchRecord(uint32_t bucket, uint64_t sequence) const;
  std::string NameOfValue(uint32_t bucket, uint64_t slot) const;

  LogContext& context_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_READER_H_
