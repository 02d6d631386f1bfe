// Reads of random pages without the engine: through its read queues, or by blocking threads.
// Also the space of an experiment: directories, and files of noise.
//
// Requests go round-robin over the files. Each run takes the time that it is given. One runs at a
// time, because it uses the whole machine.
#ifndef HARNESS_EXPERIMENTS_IO_RAW_H_
#define HARNESS_EXPERIMENTS_IO_RAW_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/read_queue.h"
#include "harness/lab/passthrough.h"
#include "harness/measure/report.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

// The space of an experiment: directories of its own on one medium, and files of noise to read.
//
// Everything lies below fresh directories, one in each directory that the user named. The
// destructor removes them, and nothing else is touched.

struct RawFile {
  UniqueFd fd;
  uint64_t size_bytes = 0;
  // False when the file system refuses O_DIRECT: then the figures are those of the page cache.
  bool direct = false;
  std::string name;
};

struct IoSpaceOptions {
  std::string medium;
  // The store's own directory is made in here.
  std::string parent;
  // Directories, best on devices of their own. When the user named none, directories in `parent`
  // stand in for them.
  std::vector<std::string> paths;
  uint32_t stand_in_count = 4;
  // The size of the noise on all paths together.
  uint64_t raw_bytes = 0;
};

class IoSpace {
 public:
  explicit IoSpace(IoSpaceOptions options) : options_(std::move(options)) {}
  IoSpace(const IoSpace&) = delete;
  IoSpace& operator=(const IoSpace&) = delete;

  // Makes the directories.
  Status Prepare();
  // One file on each path, written in full, opened direct for reading and writing. The first call
  // makes them; `*files` lives as long as the space.
  Status RawFiles(std::span<const RawFile>* files);

  const std::string& medium() const { return options_.medium; }
  const std::string& dir() const { return dir_; }
  const std::vector<std::string>& paths() const { return paths_; }
  bool has_stand_ins() const { return options_.paths.empty(); }

 private:
  // Makes a fresh directory in `parent` and gives its name.
  Status MakeIn(const std::string& parent, std::string* made);
  Status MakeRawFile(const std::string& path, uint64_t size_bytes, RawFile* file);

  const IoSpaceOptions options_;
  std::deque<ScratchDir> made_;
  std::string dir_;
  std::vector<std::string> paths_;
  std::vector<RawFile> files_;
};

// A back end with its optional features, as an experiment names it.
struct RawBackend {
  std::string name;
  IoBackend backend = IoBackend::kAuto;
  bool registered = false;
  bool iopoll = false;
  bool sqpoll = false;
};

// Every back end of the engine; io_uring once for each of its features.
std::vector<RawBackend> RawBackends();
// True for the back ends that every experiment includes: those without iopoll and sqpoll.
bool IsPlain(const RawBackend& backend);

// Tests the back end by a real read of `file`. kNotSupported says why it does not work.
Status ProbeRawBackend(const RawBackend& backend, const RawFile& file);
// The back end with which the engine would read this file.
RawBackend EngineRawBackend(const RawFile& file);

struct RawLoad {
  std::span<const RawFile> files;
  RawBackend backend;
  // When not null, `files` is one raw device, which is read through this instead of the back end.
  const lab::PassthroughDevice* passthrough = nullptr;
  uint32_t page_bytes = 4096;
  // Requests in flight, all workers together; each has its own queue.
  uint32_t depth = 128;
  uint32_t worker_count = 1;
  // Waits for this many completions at once and submits as many new requests together. With 1, each
  // request has its own system call.
  uint32_t batch = 16;
  double seconds = 1;
};

Status RunRawReads(const RawLoad& load, TimedPoint* point);

struct BlockingLoad {
  std::span<const RawFile> files;
  uint32_t page_bytes = 4096;
  uint32_t thread_count = 64;
  // How many of 100 requests are pwrites over a random page instead of preads.
  uint32_t write_percent = 0;
  // Adjacent pages that one request writes.
  uint32_t pages_per_write = 1;
  double seconds = 1;
};

Status RunBlocking(const BlockingLoad& load, TimedPoint* point);

// Draws random pages, round-robin over the files, for every load here.
class PagePicker {
 public:
  PagePicker(std::span<const RawFile> files, uint32_t page_bytes, uint64_t seed)
      : files_(files), page_bytes_(page_bytes), seed_(seed) {}
  // Draws the file's index and an offset in it at which `page_count` pages fit.
  void Next(size_t* file, uint64_t* offset, uint32_t page_count = 1);

 private:
  const std::span<const RawFile> files_;
  const uint64_t page_bytes_;
  const uint64_t seed_;
  uint64_t count_ = 0;
};

// The pages that an update touches when it begins at the start of a page. Only whole pages can be
// written: WriteAmplification is the bytes written for each byte that changes.
constexpr uint64_t PagesTouched(uint64_t update_bytes, uint64_t page_bytes) {
  return (update_bytes + page_bytes - 1) / page_bytes;
}
constexpr double WriteAmplification(uint64_t update_bytes, uint64_t page_bytes) {
  return static_cast<double>(PagesTouched(update_bytes, page_bytes) * page_bytes) /
         static_cast<double>(update_bytes);
}

// The error of a failed request as a Status. It is kNotSupported when the file does not allow
// requests of this size.
Status RequestError(const char* what, int error, uint32_t page_bytes);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_RAW_H_
