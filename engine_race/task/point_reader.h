// How one value is read by its key: found, brought, compared with its checksum. What Read,
// MultiRead and ReadAsync share.
//
// Stateless beside what it refers to; thread-safe.
#ifndef ENGINE_RACE_TASK_POINT_READER_H_
#define ENGINE_RACE_TASK_POINT_READER_H_

#include <cstdint>
#include <string>

#include "engine_race/index/index.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/task/scheduler.h"

namespace engine_race {

class PointReader {
 public:
  PointReader(const BucketLog& log, const Index& index, bool verify_checksums)
      : log_(log), index_(index), verify_checksums_(verify_checksums) {}

  // Blocking; takes about 8 KiB of stack. On failure *value is left as it was.
  Status Read(uint64_t key, std::string* value) const;
  // The same of what a view of `epoch` shows; `buffer` is of kValueBytes, aligned to kIoAlignment,
  // and may be written to on failure.
  Status ReadAt(uint64_t key, uint64_t epoch, char* buffer) const;

  struct Place {
    uint32_t bucket = 0;
    ValueRef ref;
    bool staged = false;
  };
  // The parts, for who reads in a task. Where the newest value of `key` is: kNotFound, kCorruption.
  Status Find(uint64_t key, Place* place) const;
  // Of a place that is not staged.
  io::ReadRequest RequestFor(const Place& place, char* buffer) const;
  // What the request brought.
  Status Check(const Place& place, const io::ReadCompletion& completion) const;
  Status ReadStaged(const Place& place, char* buffer) const {
    return log_.ReadValue(place.bucket, place.ref.slot(), buffer);
  }
  // Verifies what lies in `buffer` and hands it over.
  Status Deliver(const Place& place, const char* buffer, std::string* value) const;

 private:
  Status Verify(const Place& place, const char* buffer) const;

  const BucketLog& log_;
  const Index& index_;
  const bool verify_checksums_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_POINT_READER_H_
