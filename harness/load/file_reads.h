// A bare reader of whole files: what reading a store costs without an engine.
//
// Runs one thread of its own; one call at a time.
#ifndef HARNESS_LOAD_FILE_READS_H_
#define HARNESS_LOAD_FILE_READS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/io/read_queue.h"
#include "harness/data/value_maker.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// The value files of a closed store, or of one that is open without writers.
inline constexpr char kValueFilePrefix[] = "value_";

// Reads, with direct I/O and in order, the data between the holes of the files in and below `dir`
// whose names begin with `prefix`. Reads are as the engine's ranges have them, unless the caller
// gives others. *point counts reads, and the bytes that came.
Status ReadFiles(const std::string& dir, const std::string& prefix, TimedPoint* point,
                 uint32_t read_bytes = 256 * 1024, uint32_t depth = 64);

// Single blocks of those files' data, each read by one pread. Reads may come from any thread.
class BareBlocks {
 public:
  // Opens the files and lists the blocks of their data, in place of an earlier list. The last block
  // of a file may be shorter. kIOError when no file has the prefix, or none has data.
  Status Open(const std::string& dir, const std::string& prefix, uint32_t block_bytes);
  // Reads the block that `word`, a random number, stands for. `buffer` has `block_bytes`, and is
  // aligned to kIoAlignment.
  Status Read(uint64_t word, char* buffer) const;

 private:
  std::vector<io::File> files_;
  std::vector<io::ReadRequest> blocks_;
};

// The bare loop that a Write is compared with. It copies values into mapped groups, and each thread
// writes its full groups to a file. It keeps no keys, checks nothing and takes no lock.
struct BareWrites {
  std::string dir;  // an empty directory; the files stay in it
  uint32_t thread_count = 64;
  uint64_t record_count = 0;
  uint32_t group_bytes = 128 * 1024;
  // Groups that a thread fills at once; it spreads its records over them at random. With one group,
  // every value is copied to memory that is still in the cache.
  uint32_t groups_per_thread = 1;
};

// Makes the record that the bare loop and the store write. Puts the index, spread over 64 bits,
// before the other bytes of `value`, which has kValueSize bytes. Costs only some nanoseconds.
uint64_t StampRecord(uint64_t index, char* value);

// Runs threads that each call a function of their own, made by make_write(thread), for each of
// their records: Status write(uint64_t key, const char* value). Only the records' CPU time counts.
template <typename MakeWrite>
Status RunStampedWrites(uint32_t thread_count, uint64_t record_count, const MakeWrite& make_write,
                        TimedPoint* point) {
  const Status status = RunTimed(
      thread_count, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        auto write = make_write(thread);
        alignas(64) char value[kValueSize];
        std::memset(value, static_cast<int>(thread), sizeof(value));
        self->Start();
        for (uint64_t i = thread; i < record_count; i += thread_count) {
          const uint64_t key = StampRecord(i, value);
          ENGINE_RACE_RETURN_IF_ERROR(write(key, value));
        }
        self->Stop();
        return Status::Ok();
      },
      point);
  point->request_count = record_count;
  return status;
}

Status RunBareWrites(const BareWrites& loop, TimedPoint* point);

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_FILE_READS_H_
