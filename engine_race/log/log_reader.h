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

  // The calls of the same names in bucket_log.h say what these do.
  Status ReadValue(uint32_t bucket, uint64_t slot, char* buffer, uint64_t buffer_bytes) const;
  void PrefetchStagedValues(uint32_t bucket, uint64_t wanted_count) const;
  Status CutBucket(uint32_t bucket, uint64_t first_sequence, AppendListener* listener,
                   BucketCut* cut) const;
  Status LookAtBucket(uint32_t bucket, uint64_t first_sequence, BucketCut* cut) const;
  void SuspendListener(uint32_t bucket) const;
  void DetachListener(uint32_t bucket) const;
  Status ReadKeyEntry(uint32_t bucket, uint64_t sequence, format::KeyEntry* entry) const;
  uint64_t FirstSince(uint32_t bucket, const BucketMoment& since) const;
  uint64_t CountSince(uint32_t bucket, const BucketMoment& since) const;
  void WithBucketLocked(uint32_t bucket, FunctionRef<void()> function) const;
  Status CorruptValue(uint32_t bucket, uint64_t slot) const;
  Status LostValue(uint32_t bucket, uint64_t slot) const;

 private:
  Status ReadStagedByWriter(uint32_t bucket, uint64_t slot, char* buffer, bool* is_read) const;
  Status TakeCut(uint32_t bucket, uint64_t first_sequence, BucketCut* cut) const;
  Status NoSuchRecord(uint32_t bucket, uint64_t sequence) const;
  std::string NameOfValue(uint32_t bucket, uint64_t slot) const;

  LogContext& context_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_READER_H_
