#include "harness/load/bare_loops.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/io/read_queue.h"
#include "harness/data/mix.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

namespace {

namespace fs = std::filesystem;

// More than the reads in flight need, as that of ranges is.
constexpr uint64_t kMemoryBytes = 64 * 1024 * 1024;

Status FilesIn(const std::string& dir, const std::string& prefix, std::vector<io::File>* files) {
  std::vector<std::string> paths;
  std::error_code error;
  // An error ends the walk: `at` is the end then.
  for (fs::recursive_directory_iterator at(dir, error), end; at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone) && at->path().filename().string().starts_with(prefix)) {
      paths.push_back(at->path().string());
    }
  }
  if (error || paths.empty()) return Status::IOError("no files " + prefix + "* in " + dir);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::OpenPath(path, io::Access::kRead, io::Caching::kDirect, &files->emplace_back()));
  }
  return Status::Ok();
}

// Appends reads of the file's data between holes. The last read may reach past the end.
Status PlanReads(int fd, uint32_t read_bytes, std::vector<io::ReadRequest>* plan) {
  for (off_t end = 0;;) {
    const off_t begin = lseek(fd, end, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return Status::Ok();
    if (begin >= 0) end = lseek(fd, begin, SEEK_HOLE);
    if (begin < 0 || end < 0) return Status::FromErrno("lseek", errno);
    for (off_t at = begin; at < end; at += read_bytes) {
      const auto left = RoundUp(static_cast<uint64_t>(end - at), uint64_t{kIoAlignment});
      const auto size = static_cast<uint32_t>(std::min<uint64_t>(read_bytes, left));
      plan->push_back({fd, size, static_cast<uint64_t>(at), nullptr, 0});
    }
  }
}

// Makes the planned reads, into memory that they fill again and again, and waits for them.
Status Pump(const std::vector<io::ReadRequest>& plan, uint32_t batch, uint32_t depth, char* memory,
            io::ReadQueue* queue, TimedTally* tally) {
  std::vector<io::ReadRequest> requests;
  std::vector<io::ReadCompletion> completions;
  uint64_t used_bytes = 0;
  for (size_t planned = 0; planned < plan.size() || queue->in_flight() > 0;) {
    while (planned < plan.size() && queue->in_flight() + batch <= depth) {
      requests.clear();
      while (requests.size() < batch && planned < plan.size()) {
        io::ReadRequest& request = requests.emplace_back(plan[planned++]);
        if (used_bytes + request.size_bytes > kMemoryBytes) used_bytes = 0;
        request.buffer = memory + used_bytes;
        used_bytes += request.size_bytes;
      }
      size_t started = 0;
      ENGINE_RACE_RETURN_IF_ERROR(queue->Submit(requests, &started));
    }
    completions.clear();
    ENGINE_RACE_RETURN_IF_ERROR(queue->Wait(std::min(batch, queue->in_flight()), &completions));
    for (const io::ReadCompletion& completion : completions) {
      if (completion.error != 0) return Status::FromErrno("read", completion.error);
      tally->byte_count += completion.read_bytes;
    }
    tally->request_count += completions.size();
  }
  return Status::Ok();
}

}  // namespace

Status ReadFiles(const std::string& dir, const std::string& prefix, TimedPoint* point,
                 uint32_t read_bytes, uint32_t depth) {
  return RunTimed(
      1, kNoLimitSeconds,
      [&](uint32_t, TimedThread* self) {
        std::vector<io::File> files;
        std::vector<io::ReadRequest> plan;
        ENGINE_RACE_RETURN_IF_ERROR(FilesIn(dir, prefix, &files));
        for (const io::File& file : files) {
          ENGINE_RACE_RETURN_IF_ERROR(PlanReads(file.fd(), read_bytes, &plan));
        }
        Region memory;
        ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kMemoryBytes, /*huge_pages=*/true, &memory));
        // Touched ahead, so that page faults are not measured.
        std::memset(memory.data(), 1, memory.size());
        // Declared after the memory: the queue's destructor waits for reads into it.
        std::unique_ptr<io::ReadQueue> queue;
        ENGINE_RACE_RETURN_IF_ERROR(io::ReadQueue::Create({IoBackend::kAuto, depth}, &queue));
        self->Start();
        const Status status =
            Pump(plan, std::max(1u, depth / 8), depth, memory.data(), queue.get(), &self->tally);
        self->Stop();
        return status;
      },
      point);
}

Status BareBlocks::Open(const std::string& dir, const std::string& prefix, uint32_t block_bytes) {
  files_.clear();
  blocks_.clear();
  ENGINE_RACE_RETURN_IF_ERROR(FilesIn(dir, prefix, &files_));
  for (const io::File& file : files_) {
    ENGINE_RACE_RETURN_IF_ERROR(PlanReads(file.fd(), block_bytes, &blocks_));
  }
  return blocks_.empty() ? Status::IOError("no data in " + dir) : Status::Ok();
}

Status BareBlocks::Read(uint64_t word, char* buffer) const {
  const io::ReadRequest& block = blocks_[AsBelow(word, blocks_.size())];
  // A plain system call: the checks of engine_race/base/sys.h are a cost of the engine.
  const ssize_t got = ::pread(block.fd, buffer, block.size_bytes, static_cast<off_t>(block.offset));
  if (got < 0) return Status::FromErrno("pread", errno);
  return got > 0 ? Status::Ok() : Status::IOError("read past the end of a value file");
}

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

namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kBlocksPerThread = 1024;

}  // namespace

DurableLoops::DurableLoops(const std::string& dir, uint32_t thread_count)
    : path_(dir + "/durable_loops"), thread_count_(thread_count) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  Region piece;
  constexpr int kFlags = O_RDWR | O_CREAT | O_TRUNC;
  const bool is_direct = sys::OpenAt(AT_FDCWD, path_, kFlags | O_DIRECT, 0644, &fd_).ok();
  if (!is_direct && !sys::OpenAt(AT_FDCWD, path_, kFlags, 0644, &fd_).ok()) return;
  if (!Region::Allocate(kPieceBytes, false, &piece).ok()) return;
  const uint64_t size_bytes = thread_count * kBlocksPerThread * kBlockBytes;
  bool ok = true;
  for (uint64_t offset = 0; ok && offset < size_bytes; offset += kPieceBytes) {
    ok = sys::PwriteFull(fd_.get(), piece.data(), kPieceBytes, offset).ok();
  }
  if (!ok || ::fsync(fd_.get()) != 0) fd_.Reset();
}

DurableLoops::~DurableLoops() { ::unlink(path_.c_str()); }

// Each thread writes blocks of its own.
double DurableLoops::Rate(double seconds, FunctionRef<bool()> flush) const {
  TimedPoint point;
  const Status status = RunTimed(
      thread_count_, seconds,
      [&](uint32_t thread, TimedThread* self) {
        Region block;
        ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kBlockBytes, false, &block));
        std::memset(block.data(), static_cast<int>(thread), kBlockBytes);
        self->Start();
        for (uint64_t& count = self->tally.request_count; self->Running(); ++count) {
          const uint64_t number = thread * kBlocksPerThread + count % kBlocksPerThread;
          const bool is_durable = ::pwrite(fd_.get(), block.data(), kBlockBytes,
                                           static_cast<off_t>(number * kBlockBytes)) ==
                                      static_cast<ssize_t>(kBlockBytes) &&
                                  flush();
          if (!is_durable) return Status::IOError("durable write");
        }
        return Status::Ok();
      },
      &point);
  return status.ok() ? point.RequestsPerSecond() : 0;
}

double DurableLoops::WithAFlushEach(double seconds) {
  return Rate(seconds, [this] { return ::fdatasync(fd_.get()) == 0; });
}

double DurableLoops::WithALeader(double seconds) {
  GroupCommit flushes(thread_count_, [this](std::span<const GroupedWrite>) {
    return ::fdatasync(fd_.get()) == 0 ? Status::Ok() : Status::FromErrno("fdatasync", errno);
  });
  return Rate(seconds, [&flushes] { return flushes.Submit({}).ok(); });
}

Status GroupCommit::Submit(const GroupedWrite& write) {
  Waiter self;
  self.write = write;
  std::unique_lock lock(mutex_);
  waiting_.push_back(&self);
  self.turn.wait(lock, [&] { return self.done || waiting_.front() == &self; });
  if (self.done) return self.status;
  const std::vector<Waiter*> group(waiting_.begin(),
                                   waiting_.begin() + std::min(waiting_.size(), max_count_));
  // The group stays queued meanwhile, so no other thread becomes the leader.
  lock.unlock();
  std::vector<GroupedWrite> writes;
  writes.reserve(group.size());
  for (const Waiter* waiter : group) writes.push_back(waiter->write);
  const Status status = commit_(writes);
  lock.lock();
  waiting_.erase(waiting_.begin(), waiting_.begin() + group.size());
  for (Waiter* waiter : group) {
    waiter->status = status;
    waiter->done = true;
    if (waiter != &self) waiter->turn.notify_one();
  }
  if (!waiting_.empty()) waiting_.front()->turn.notify_one();
  return status;
}

}  // namespace engine_race::harness
