// How one value is read by its key: found, in a frame or brought from the log, compared with its
// checksum. What Read, MultiRead and ReadAsync share.
//
// What is in a frame was compared when it was put there, and is not again. What was brought from
// the log is offered to the frames.
//
// Stateless beside what it refers to; thread-safe.
#ifndef ENGINE_RACE_TASK_POINT_READER_H_
#define ENGINE_RACE_TASK_POINT_READER_H_

#include <cstdint>
#include <string>

#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/task/scheduler.h"

namespace engine_race {

class PointReader {
 public:
  // `frames` may be null: everything comes from the log then.
  PointReader(const BucketLog& log, const Index& index, l1::ValueFrames* frames,
              bool verify_checksums)
      : log_(log), index_(index), frames_(frames), verify_checksums_(verify_checksums) {}

  // Those of the store. No other key may be read.
  const KeyRange& keys() const { return log_.geometry().keys(); }

  const numa::StorePlacement& placement() const { return log_.placement(); }

  // Blocking; takes about 8 KiB of stack. On failure *value is left as it was.
  Status Read(uint64_t key, std::string* value) const;
  // The same of what a view of `epoch` shows; `buffer` is of kValueBytes, aligned to kIoAlignment,
  // and may be written to on failure. Takes what is in a frame, but offers nothing.
  Status ReadAt(uint64_t key, uint64_t epoch, char* buffer) const;

  struct Place {
    uint32_t bucket = 0;
    ValueRef ref;
    bool staged = false;
    bool delivered = false;  // there is nothing left to be done
  };
  // The parts, for who reads in a task. Where the newest value of `key` is: kNotFound, kCorruption.
  // One that is in a frame is put into *value at once.
  Status Find(uint64_t key, Place* place, std::string* value) const;
  // Of a place that is neither delivered nor staged.
  io::ReadRequest RequestFor(const Place& place, char* buffer) const;
  // What the request brought.
  Status Check(const Place& place, const io::ReadCompletion& completion) const;
  // Staged or not.
  Status ReadBlocking(const Place& place, char* buffer) const {
    return log_.ReadValue(place.bucket, place.ref.slot(), buffer);
  }
  // Verifies what lies in `buffer`, hands it over, and offers it to the frames.
  Status Deliver(uint64_t key, const Place& place, const char* buffer, std::string* value) const;

  // Null where there are none.
  l1::ValueFrames* frames() const { return frames_; }

 private:
  template <typename FindFn>
  Status FindLoaded(uint32_t bucket, const FindFn& find) const;
  Status ReadFromLog(uint64_t key, const Place& place, std::string* value) const;
  Status Verify(const Place& place, const char* buffer) const;

  const BucketLog& log_;
  const Index& index_;
  l1::ValueFrames* const frames_;
  const bool verify_checksums_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_POINT_READER_H_
