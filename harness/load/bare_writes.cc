#include "harness/load/bare_writes.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

namespace {

constexpr char kBareName[] = "bare_";

// The files and the mapping of one run.
struct BareFiles {
  Status Make(const BareWrites& loop) {
    UniqueFd dir;
    ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(loop.dir, true, &dir));
    const uint64_t groups = uint64_t{loop.thread_count} * loop.groups_per_thread;
    const uint64_t staged_bytes = groups * loop.group_bytes;
    const std::string name(kBareName);
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir.get(), name + "staging", io::Access::kCreate,
                                               io::Caching::kBuffered, &staging));
    bool supported = false;
    ENGINE_RACE_RETURN_IF_ERROR(staging.Reserve(false, 0, staged_bytes, &supported));
    if (!supported) ENGINE_RACE_RETURN_IF_ERROR(staging.Truncate(staged_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(SharedMapping::Map(staging.fd(), staged_bytes, &mapping));
    logs.resize(loop.thread_count);
    for (uint32_t i = 0; i < loop.thread_count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir.get(), name + std::to_string(i),
                                                 io::Access::kCreate, io::Caching::kDirect,
                                                 &logs[i]));
    }
    return Status::Ok();
  }

  io::File staging;
  SharedMapping mapping;
  std::vector<io::File> logs;
};

// The write of one thread, with groups of its own.
class BareWrite {
 public:
  BareWrite(const BareWrites& loop, const BareFiles& files, uint32_t thread)
      : group_bytes_(loop.group_bytes),
        groups_(files.mapping.data() +
                uint64_t{thread} * loop.groups_per_thread * loop.group_bytes),
        log_fd_(files.logs[thread].fd()),
        filled_bytes_(loop.groups_per_thread) {}

  Status operator()(uint64_t key, const char* value) {
    const uint64_t which = AsBelow(key, filled_bytes_.size());
    char* const group = groups_ + which * group_bytes_;
    std::memcpy(group + filled_bytes_[which], value, kValueSize);
    filled_bytes_[which] += kValueSize;
    if (filled_bytes_[which] < group_bytes_) return Status::Ok();
    filled_bytes_[which] = 0;
    // A plain system call: the checks of engine_race/base/sys.h are a cost of the engine.
    const ssize_t written = ::pwrite(log_fd_, group, group_bytes_, static_cast<off_t>(offset_));
    offset_ += group_bytes_;
    return written == static_cast<ssize_t>(group_bytes_) ? Status::Ok()
                                                         : Status::FromErrno("pwrite", errno);
  }

 private:
  const uint32_t group_bytes_;
  char* const groups_;
  const int log_fd_;
  std::vector<uint32_t> filled_bytes_;
  uint64_t offset_ = 0;
};

}  // namespace

uint64_t StampRecord(uint64_t index, char* value) {
  const uint64_t key = Mix64(index * 0x9e3779b97f4a7c15);
  std::memcpy(value, &key, sizeof(key));
  return key;
}

Status RunBareWrites(const BareWrites& loop, TimedPoint* point) {
  BareFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(files.Make(loop));
  return RunStampedWrites(
      loop.thread_count, loop.record_count,
      [&](uint32_t thread) { return BareWrite(loop, files, thread); }, point);
}

}  // namespace engine_race::harness
