#include "harness/load/bare_writes.h"

#include <fcntl.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "harness/data/mix.h"
#include "harness/measure/workers.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::SharedMapping;
using engine_race::Status;
namespace io = engine_race::io;

namespace {

constexpr char kBareName[] = "bare_";

// The files and the mapping of one run.
class BareFiles {
 public:
  static Status Make(const BareWrites& loop, BareFiles* made) {
    engine_race::UniqueFd dir;
    ENGINE_RACE_RETURN_IF_ERROR(engine_race::sys::OpenDirectory(loop.dir, true, &dir));
    const uint64_t groups = uint64_t{loop.thread_count} * loop.groups_per_thread;
    const uint64_t staged_bytes = groups * loop.group_bytes;
    const std::string name(kBareName);
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir.get(), name + "staging", io::Access::kCreate,
                                               io::Caching::kBuffered, &made->staging_));
    bool supported = false;
    ENGINE_RACE_RETURN_IF_ERROR(made->staging_.Reserve(false, 0, staged_bytes, &supported));
    if (!supported) ENGINE_RACE_RETURN_IF_ERROR(made->staging_.Truncate(staged_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(
        SharedMapping::Map(made->staging_.fd(), staged_bytes, &made->mapping_));
    made->files_.resize(loop.thread_count);
    for (uint32_t i = 0; i < loop.thread_count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir.get(), name + std::to_string(i),
                                                 io::Access::kCreate, io::Caching::kDirect,
                                                 &made->files_[i]));
    }
    return Status::Ok();
  }

  char* group(uint64_t number, uint32_t group_bytes) const {
    return mapping_.data() + number * group_bytes;
  }
  int log_fd(uint32_t thread) const { return files_[thread].fd(); }

 private:
  io::File staging_;
  SharedMapping mapping_;
  std::vector<io::File> files_;
};

// The state of one thread, with groups of its own.
class BareThread {
 public:
  BareThread(const BareWrites& loop, const BareFiles& files, uint32_t thread)
      : loop_(loop),
        files_(files),
        thread_(thread),
        group_records_(loop.group_bytes / kValueSize),
        counts_(loop.groups_per_thread) {}

  bool Write(uint64_t key, const char* value) {
    const uint64_t which = AsBelow(key, counts_.size());
    char* const group = files_.group(uint64_t{thread_} * counts_.size() + which, loop_.group_bytes);
    std::memcpy(group + size_t{counts_[which]} * kValueSize, value, kValueSize);
    if (++counts_[which] < group_records_) return true;
    counts_[which] = 0;
    // A plain system call: the checks of engine_race/base/sys.h are a cost of the engine.
    const ssize_t written =
        ::pwrite(files_.log_fd(thread_), group, loop_.group_bytes, static_cast<off_t>(offset_));
    offset_ += loop_.group_bytes;
    return written == static_cast<ssize_t>(loop_.group_bytes);
  }

 private:
  const BareWrites& loop_;
  const BareFiles& files_;
  const uint32_t thread_;
  const uint32_t group_records_;
  std::vector<uint32_t> counts_;
  uint64_t offset_ = 0;
};

}  // namespace

uint64_t StampRecord(uint64_t index, char* value) {
  const uint64_t key = Mix64(index * 0x9e3779b97f4a7c15);
  std::memcpy(value, &key, sizeof(key));
  return key;
}

TimedRun RunStampedWrites(uint32_t thread_count, uint64_t record_count,
                          const MakeWriteFn& make_worker) {
  Failures failures;
  const uint64_t began_ns = NowNs();
  const double began_cpu_s = CpuSeconds();
  RunWorkers(thread_count, &failures, [&](uint32_t thread) {
    const WriteFn write = make_worker(thread);
    alignas(64) char value[kValueSize];
    std::memset(value, static_cast<int>(thread), sizeof(value));
    for (uint64_t i = thread; i < record_count; i += thread_count) {
      const uint64_t key = StampRecord(i, value);
      if (!write(key, value)) return failures.Note("a record was not written");
    }
  });
  if (failures.any()) return {};
  return {record_count, SecondsSince(began_ns), CpuSeconds() - began_cpu_s};
}

TimedRun RunBareWrites(const BareWrites& loop, std::string* error) {
  BareFiles files;
  const Status made = BareFiles::Make(loop, &files);
  if (!made.ok()) {
    *error = made.ToString();
    return {};
  }
  const TimedRun run =
      RunStampedWrites(loop.thread_count, loop.record_count, [&](uint32_t thread) -> WriteFn {
        const auto own = std::make_shared<BareThread>(loop, files, thread);
        return [own](uint64_t key, const char* value) { return own->Write(key, value); };
      });
  if (!run.ok()) *error = "the bare loop could not write a group";
  return run;
}

}  // namespace harness
