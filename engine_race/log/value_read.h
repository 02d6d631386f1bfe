// Neighbouring logged values of one segment, read at once with the blocks around them. All
// asynchronous reads of values, and the blocking ones of scans, are made and checked here.
//
// A value type; const calls from any thread.
#ifndef ENGINE_RACE_LOG_VALUE_READ_H_
#define ENGINE_RACE_LOG_VALUE_READ_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/format.h"

namespace engine_race {

struct ValueRead {
  uint64_t first_slot = 0;
  uint32_t bucket = 0;
  uint32_t slot_count = 1;

  Blocks BlocksOf(uint32_t slot_bytes) const {
    // Shorter rows are whole blocks, so this counts from a block of their segment.
    return BlocksAround(first_slot % format::kMaxRowRecords * slot_bytes,
                        uint64_t{slot_count} * slot_bytes);
  }
  // `buffer`, aligned to kIoAlignment, has room for the blocks. If the segment has no place, the
  // read returns no bytes.
  io::ReadRequest RequestFor(const BucketLog& log, char* buffer) const;
  // Ok if the completion of the request has brought all blocks. Else kIOError, or kCorruption where
  // the place of the segment is lost. Throws nothing: other reads may be in flight.
  Status Check(const BucketLog& log, const io::ReadCompletion& completion) const noexcept {
    if (completion.error == 0 &&
        completion.read_bytes == BlocksOf(log.geometry().slot_bytes()).size_bytes) [[likely]] {
      return Status::Ok();
    }
    return Failure(log, completion.error);
  }
  // Reads the blocks, and waits for the device. Fails as Check does.
  Status Read(const BucketLog& log, char* buffer) const;

 private:
  Status Failure(const BucketLog& log, int error) const noexcept;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VALUE_READ_H_
