#include "harness/load/durable_loops.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine_race/base/memory.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

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
