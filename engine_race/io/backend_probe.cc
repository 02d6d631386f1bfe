#include "engine_race/io/backend_probe.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {

namespace {

constexpr uint32_t kProbeBytes = 4096;

std::string NameOf(const ReadBackend& candidate) {
  std::string name = BackendName(candidate.backend);
  if (candidate.iopoll) name += " with iopoll";
  if (candidate.sqpoll) name += candidate.iopoll ? " and sqpoll" : " with sqpoll";
  return name;
}

// A file system in memory has no asynchronous reads, so io_uring gives them to threads of the
// kernel. That takes twice the CPU time of libaio, which reads at once.
bool IsInMemory(const File& file) {
  struct stat node;
  // The node of a device lies in memory, the device does not.
  if (fstat(file.fd(), &node) != 0 || !S_ISREG(node.st_mode)) return false;
  struct statfs info;
  return fstatfs(file.fd(), &info) == 0 &&
         (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

// The back ends to try, the best first.
std::vector<ReadBackend> Candidates(const Options& options, const File& file) {
  std::vector<ReadBackend> candidates;
  if (options.io_backend == IoBackend::kPsync) return {{IoBackend::kPsync}};
  const bool libaio_first = options.io_backend == IoBackend::kLibaio ||
                            (options.io_backend == IoBackend::kAuto && IsInMemory(file));
  if (libaio_first) candidates.push_back({IoBackend::kLibaio});
  // These options are for io_uring, so they count only where io_uring or kAuto is asked for.
  const bool may_poll = !libaio_first;
  const bool iopoll = may_poll && options.io_uring_iopoll;
  const bool sqpoll = may_poll && options.io_uring_sqpoll;
  if (iopoll && sqpoll) candidates.push_back({IoBackend::kIoUring, true, true});
  if (sqpoll) candidates.push_back({IoBackend::kIoUring, false, true});
  if (iopoll) candidates.push_back({IoBackend::kIoUring, true, false});
  candidates.push_back({IoBackend::kIoUring});
  // libaio submits a read through the page cache by reading it, one after the other.
  if (!libaio_first && !options.page_cache) candidates.push_back({IoBackend::kLibaio});
  candidates.push_back({IoBackend::kPsync});
  return candidates;
}

Status TryToRead(const ReadBackend& candidate, const File& file, char* buffer) {
  ReadQueueOptions options;
  options.backend = candidate.backend;
  options.depth = 1;
  options.iopoll = candidate.iopoll;
  options.sqpoll = candidate.sqpoll;
  std::unique_ptr<ReadQueue> queue;
  ENGINE_RACE_RETURN_IF_ERROR(ReadQueue::Create(options, &queue));
  const std::array<ReadRequest, 1> requests = {{{file.fd(), kProbeBytes, 0, buffer, 0}}};
  std::vector<ReadCompletion> completions;
  size_t started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(queue->Submit(requests, &started));
  ENGINE_RACE_RETURN_IF_ERROR(queue->Wait(1, &completions));
  if (completions.empty()) return Status::IOError("a read did not end");
  const int error = completions.front().error;
  return error == 0 ? Status::Ok() : ReadError(file, error);
}

}  // namespace

Status ProbeReadBackend(const Options& options, const File& file, ReadBackend* chosen) {
  const std::vector<ReadBackend> candidates = Candidates(options, file);
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kProbeBytes, false, &buffer));
  std::string refusals;
  Status status;
  for (const ReadBackend& candidate : candidates) {
    status = TryToRead(candidate, file, buffer.data());
    if (status.ok()) {
      *chosen = candidate;
      break;
    }
    refusals += NameOf(candidate) + " does not work here (" + status.message() + "), ";
  }
  if (!status.ok() || refusals.empty()) return status;
  const bool was_asked_for = options.io_backend != IoBackend::kAuto || candidates.front().iopoll ||
                             candidates.front().sqpoll;
  Log(options.log, was_asked_for ? LogLevel::kWarning : LogLevel::kInfo,
      refusals + "reading by " + NameOf(*chosen));
  return Status::Ok();
}

const char* BackendName(IoBackend backend) {
  switch (backend) {
    case IoBackend::kAuto:
      return "auto";
    case IoBackend::kPsync:
      return "psync";
    case IoBackend::kLibaio:
      return "libaio";
    case IoBackend::kIoUring:
      return "io_uring";
  }
  return "unknown";
}

}  // namespace engine_race::io
