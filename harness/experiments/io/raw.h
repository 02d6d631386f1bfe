// Reads of random pages without the engine: through its read queues, or by blocking threads.
//
// Requests go round-robin over the files. Functions that take as long as they are told; one at a
// time, for they fill the machine.
#ifndef HARNESS_EXPERIMENTS_IO_RAW_H_
#define HARNESS_EXPERIMENTS_IO_RAW_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/read_queue.h"
#include "harness/experiments/io/space.h"
#include "harness/lab/passthrough.h"
#include "harness/measure/report.h"

namespace harness {

// A back end as an experiment names it: with the extras that it may be asked for.
struct RawBackend {
  std::string name;
  engine_race::IoBackend backend = engine_race::IoBackend::kAuto;
  bool registered = false;
  bool iopoll = false;
  bool sqpoll = false;
};

// Every back end of the engine, each io_uring extra by itself.
std::vector<RawBackend> RawBackends();
// Of those, the ones a round of points should not leave out: no iopoll, no sqpoll.
bool IsPlain(const RawBackend& backend);

// Whether it works, told by a real read of `file`: kNotSupported says why it does not.
engine_race::Status ProbeRawBackend(const RawBackend& backend, const RawFile& file);
// The one that the engine would read such a file with.
RawBackend EngineRawBackend(const RawFile& file);

struct RawLoad {
  std::span<const RawFile> files;
  RawBackend backend;
  // When there is one: `files` is one raw device, read through this instead of the back end.
  const lab::PassthroughDevice* passthrough = nullptr;
  uint32_t page_bytes = 4096;
  // Requests in flight, all workers together; each has its own queue.
  uint32_t depth = 128;
  uint32_t worker_count = 1;
  // So many are waited for at once, and those that came are submitted together; with 1 each has a
  // system call to itself.
  uint32_t batch = 16;
  double seconds = 1;
};

engine_race::Status RunRawReads(const RawLoad& load, TimedPoint* point);

struct BlockingLoad {
  std::span<const RawFile> files;
  uint32_t page_bytes = 4096;
  uint32_t thread_count = 64;
  // Of 100 requests, how many are pwrites over a random page instead of preads.
  uint32_t write_percent = 0;
  // Pages next to each other that one request writes.
  uint32_t pages_per_write = 1;
  double seconds = 1;
};

engine_race::Status RunBlocking(const BlockingLoad& load, TimedPoint* point);

// Pages of random places, round-robin over files: what every load here reads.
class PagePicker {
 public:
  PagePicker(std::span<const RawFile> files, uint32_t page_bytes, uint64_t seed)
      : files_(files), page_bytes_(page_bytes), seed_(seed) {}
  // The file's number and the page's offset in it; `page_count` pages fit from there on.
  void Next(size_t* file, uint64_t* offset, uint32_t page_count = 1);

 private:
  const std::span<const RawFile> files_;
  const uint64_t page_bytes_;
  const uint64_t seed_;
  uint64_t count_ = 0;
};

// A request that failed, as a status; a size that the file cannot be read in is kNotSupported.
engine_race::Status RequestError(const char* what, int error, uint32_t page_bytes);

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_IO_RAW_H_
