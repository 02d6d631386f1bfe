// Bare loops, which do without an engine: reads of a store's files, writes of groups, durable
// writes.
//
// ReadFiles runs one thread of its own; one call at a time.
#ifndef HARNESS_LOAD_BARE_LOOPS_H_
#define HARNESS_LOAD_BARE_LOOPS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
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

// The least cost of durable 4 KiB writes: loops that do nothing else.
//
// Both write with direct I/O into a file whose blocks have all been written before, so that a flush
// has no metadata to write. An error ends the loop and gives a rate of zero.

class DurableLoops {
 public:
  // Makes the file in `dir`; the destructor removes it.
  DurableLoops(const std::string& dir, uint32_t thread_count);
  ~DurableLoops();

  // Returns durable writes a second: each thread writes 4 KiB and calls fdatasync.
  double WithAFlushEach(double seconds);
  // Likewise, but one of the threads that wait calls fdatasync for all of them.
  double WithALeader(double seconds);

 private:
  // Durable writes a second by all threads; flush() makes a block durable that has been written. 0
  // after a failure.
  double Rate(double seconds, FunctionRef<bool()> flush) const;

  std::string path_;
  uint32_t thread_count_;
  UniqueFd fd_;
};

// Puts the writes of many threads into one transaction of a store that has a single writer.
//
// A thread that comes while nobody commits becomes the leader. It takes all writes that wait,
// commits them, wakes their threads and hands over to the next leader. Each thread returns once its
// own write is committed. Thread-safe.
struct GroupedWrite {
  uint64_t key = 0;
  const char* value = nullptr;  // null deletes the key
};

class GroupCommit {
 public:
  // Commits all of the writes or none. One thread at a time calls it.
  using CommitFn = std::function<Status(std::span<const GroupedWrite> writes)>;

  GroupCommit(size_t max_count, CommitFn commit)
      : max_count_(max_count), commit_(std::move(commit)) {}

  // Returns when a group with this write has been committed or has failed.
  Status Submit(const GroupedWrite& write);

 private:
  struct Waiter {
    GroupedWrite write;
    bool done = false;
    Status status;
    std::condition_variable turn;
  };

  const size_t max_count_;
  const CommitFn commit_;
  std::mutex mutex_;
  // The first one leads.
  std::deque<Waiter*> waiting_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_BARE_LOOPS_H_
