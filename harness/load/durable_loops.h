// What durable 4 KiB writes cost at the least: loops that do nothing else.
//
// Both write with direct I/O into a file whose blocks have all been written before, so that a flush
// has no metadata to write. Errors end the loop and give a rate of zero.
#ifndef HARNESS_LOAD_DURABLE_LOOPS_H_
#define HARNESS_LOAD_DURABLE_LOOPS_H_

#include <cstdint>
#include <string>

namespace harness {

class DurableLoops {
 public:
  // Makes the file in `dir`; the destructor removes it.
  DurableLoops(const std::string& dir, uint32_t thread_count);
  DurableLoops(const DurableLoops&) = delete;
  DurableLoops& operator=(const DurableLoops&) = delete;
  ~DurableLoops();

  // Durable writes a second: each thread writes a block and calls fdatasync.
  double WithAFlushEach(double seconds);
  // Each thread writes a block; one of those that wait calls fdatasync for all of them.
  double WithALeader(double seconds);

 private:
  std::string path_;
  uint32_t thread_count_;
  int fd_ = -1;
};

}  // namespace harness

#endif  // HARNESS_LOAD_DURABLE_LOOPS_H_
