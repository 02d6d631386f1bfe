// Reads one value by its key: finds it in a frame or reads it from the log, and compares it with
// its checksum. For Read, MultiRead and ReadAsync.
//
// A value in a frame was verified when it was put there and is not verified again. A value that was
// read from the log is offered to the frames if it is the newest of its key. ReadAt into a caller's
// buffer, which iterators use, admits it to a free frame, as walks do, without a limit of time.
//
// Keeps no state of its own but buffers for large values; thread-safe.
#ifndef ENGINE_RACE_TASK_POINT_READER_H_
#define ENGINE_RACE_TASK_POINT_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/base/value_sink.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/region_pool.h"
#include "engine_race/log/value_read.h"
#include "engine_race/task/scheduler.h"

namespace engine_race {

class PointReader {
 public:
  // `frames` may be null: then every value is read from the log.
  PointReader(const BucketLog& log, const Index& index, ValueFrames* frames, bool verify_checksums)
      : log_(log),
        index_(index),
        frames_(frames),
        verify_checksums_(verify_checksums),
        layout_(log.geometry().layout),
        large_buffers_(layout_.read_bytes()) {}

  // Of the store. No other key may be read.
  const KeyRange& keys() const { return log_.geometry().keys(); }
  const ValueLayout& layout() const { return layout_; }

  const numa::StorePlacement& placement() const { return log_.placement(); }
  const Index& index() const { return index_; }
  // The cache of hot values, perhaps that of the index; null without frames.
  l1::FrameCache* value_cache() const { return frames_ == nullptr ? nullptr : &frames_->cache(); }
  io::FailedBackends* failed_backends() const { return log_.failed_backends(); }

  // Reads the newest value, or that which a view of `version` shows. Blocks, and takes about 8 KiB
  // of stack, or 12 KiB where values are not whole blocks. On failure `value` is unchanged.
  Status Read(uint64_t key, ValueSink value, uint64_t version = kLatestVersion) const;
  // Reads such a value to the beginning of `buffer`. That has layout().read_bytes(), aligned to
  // kIoAlignment, and may be written to on failure.
  Status ReadAt(uint64_t key, uint64_t version, char* buffer) const;

  struct Found {
    uint32_t bucket = 0;
    ValueRef ref;
    bool staged = false;
    bool is_found = false;              // the lookup has given `ref`
    bool delivered = false;             // there is nothing left to be done
    uint64_t version = kLatestVersion;  // at another one it may be superseded
    // BucketLog::ReuseCount before the lookup.
    uint64_t reuse_count = 0;

    ValueRead read() const { return {ref.slot(), bucket}; }
  };
  // The steps of a read, for tasks. Find finds the value that a view of `version` shows:
  // kNotFound, kCorruption. If it is in a frame, it is put into `value` at once. kIncomplete: the
  // lookup wants a block. Read it with index().RequestFor(lookup, buffer), hand it to
  // index().Accept, and call Find again. `window`, of the newest value, is as for Index::Find.
  Status Find(uint64_t key, uint64_t version, Found* found, BlockLookup* lookup, ValueSink value,
              const RunWindow& window = {}) const;
  // The request for the blocks around a value that is neither delivered nor staged. `buffer`, here
  // and below, is as for ReadAt.
  io::ReadRequest RequestFor(const Found& found, char* buffer) const {
    ENGINE_RACE_ASSERT(!found.delivered && !found.staged);
    return found.read().RequestFor(log_, buffer);
  }
  // Turns the completion of the request into a status.
  Status Check(const Found& found, const io::ReadCompletion& completion) const {
    return found.read().Check(log_, completion);
  }
  // Reads a value from the log, staged or not.
  Status ReadBlocking(const Found& found, char* buffer) const {
    return log_.reader().ReadValue(found.bucket, found.ref.slot(), buffer, layout_.read_bytes());
  }
  // Verifies the value in `buffer`, as RequestFor or ReadBlocking has brought it. Copies it to
  // `value`, and offers it to the frames unless it is superseded. Reads the key again, and blocks,
  // if the slot may have been used again.
  Status Deliver(uint64_t key, const Found& found, const char* buffer, ValueSink value) const;

  // kIncomplete: the slot may have been given to another record. Read tries again, so no caller of
  // its own gets that.
  Status CheckFresh(const Found& found) const {
    Status failure;
    if (!IsStale(found, &failure)) [[likely]]
      return Status::Ok();
    return failure.ok() ? Status(Code::kIncomplete, {}) : failure;
  }

 private:
  template <typename FindFn>
  Status FindLoaded(uint32_t bucket, const FindFn& find) const;
  Status ReadFromLog(uint64_t key, const Found& found, ValueSink value) const;
  template <size_t kBytes>
  Status ReadOnStack(uint64_t key, const Found& found, ValueSink value) const;
  Status ReadThrough(char* buffer, uint64_t key, const Found& found, ValueSink value) const;
  Status DeliverOnce(uint64_t key, const Found& found, const char* read, ValueSink value) const;
  // Whether the slot may have been given to another record since the lookup. Views keep slots, but
  // not from another process.
  // *failure: see BucketLog::IsReused.
  bool IsStale(const Found& found, Status* failure) const {
    const uint64_t slot = found.ref.slot();
    return (found.version == kLatestVersion || log_.follows()) &&
           log_.IsReused(found.bucket, {&slot, 1}, found.reuse_count, failure);
  }
  template <typename ReadFn>
  Status UntilFresh(const ReadFn& read) const;
  bool IsNewest(uint64_t key, const Found& found) const;
  Status Verify(const Found& found, const char* read) const;

  const BucketLog& log_;
  const Index& index_;
  ValueFrames* const frames_;
  const bool verify_checksums_;
  const ValueLayout layout_;
  mutable RegionPool large_buffers_;  // of values that are read by way of no stack
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_POINT_READER_H_
