// The least cost of durable 4 KiB writes: loops that do nothing else.
//
// Both write with direct I/O into a file whose blocks have all been written before, so that a flush
// has no metadata to write. An error ends the loop and gives a rate of zero. Not thread-safe.
#ifndef HARNESS_LOAD_DURABLE_LOOPS_H_
#define HARNESS_LOAD_DURABLE_LOOPS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/function_ref.h"

namespace engine_race::harness {

class DurableLoops {
 public:
  // Makes the file in `dir`; the destructor removes it.
  DurableLoops(const std::string& dir, uint32_t thread_count);
  DurableLoops(const DurableLoops&) = delete;
  DurableLoops& operator=(const DurableLoops&) = delete;
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
  int fd_ = -1;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_DURABLE_LOOPS_H_
