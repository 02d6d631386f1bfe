// What scans ask of the coordinator, each from its own thread; coordinator.cc is what its thread
// does about it.
#include <algorithm>
#include <new>

#include "engine_race/scan/coordinator.h"

namespace engine_race {

namespace {

double Nanoseconds(ScanClock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

}  // namespace

Chunk* Coordinator::Next(Scanner* scanner, uint32_t visited) {
  std::unique_lock lock(mutex_);
  if (scanner->chunk != nullptr) {
    MeasurePace(*scanner, visited);
    LetGo(scanner);
  }
  // Relaxed: it is stored under the mutex.
  if (scanner->detached.load(std::memory_order_relaxed)) return nullptr;
  if (!scanner->attached && !Attach(scanner)) return nullptr;
  Wake();
  if (Chunk* chunk = cache_.Find(scanner->pos)) {
    if (Serves(*chunk, *scanner)) {
      Give(scanner, chunk);
      return chunk;
    }
  }
  scanner->waiting = true;
  scanner->wait_number = ++wait_count_;
  scanner->answered.wait(lock, [scanner] { return !scanner->waiting; });
  return scanner->chunk;
}

void Coordinator::MeasurePace(const Scanner& scanner, uint32_t visited) {
  constexpr uint32_t kEnough = 16;
  if (visited < kEnough || !scanner.attached) return;
  const auto since = std::max(scanner.taken_time, scanner.chunk->ready_time);
  const double ns = Nanoseconds(ScanClock::now() - since) / visited;
  usual_ns_per_record_ += (ns - usual_ns_per_record_) / 8;
}

void Coordinator::StepOut(Scanner* scanner, uint64_t pos) {
  std::lock_guard lock(mutex_);
  LetGo(scanner);
  scanner->pos = pos;
  scanner->finishing = false;
  Wake();
}

void Coordinator::MovedAlone(Scanner* scanner, uint64_t pos, ScanClock::duration taken,
                             uint32_t records) {
  std::lock_guard lock(mutex_);
  scanner->pos = pos;
  const double usual_ns = usual_ns_per_record_ * records;
  if (attached_.empty() || Nanoseconds(taken) <= kPatienceVisits * usual_ns + 1e6) {
    // Relaxed: only this thread reads it without the mutex.
    scanner->detached.store(false, std::memory_order_relaxed);
  }
}

void Coordinator::Condemn(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  scanner->chunk->doomed = true;
}

void Coordinator::Leave(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  if (scanner->chunk != nullptr) LetGo(scanner);
  if (scanner->attached) Unlist(scanner);
  Wake();
}

void Coordinator::ShrinkTo(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  cache_.ShrinkTo(bytes, attached_);
}

bool Coordinator::Attach(Scanner* scanner) {
  try {
    // All that the thread keeps a row of scanners in, so that it never needs memory for them.
    const size_t count = attached_.size() + 1;
    if (ahead_.capacity() < count) ahead_.reserve(2 * count);
    cache_.ReserveScanners(count);
    attached_.push_back(scanner);
  } catch (const std::bad_alloc&) {
    return false;
  }
  scanner->attached = true;
  scanner->frontier = scanner->pos;
  scanner->covered = false;
  return true;
}

void Coordinator::Unlist(Scanner* scanner) {
  *std::find(attached_.begin(), attached_.end(), scanner) = attached_.back();
  attached_.pop_back();
  scanner->attached = false;
}

void Coordinator::LetGo(Scanner* scanner) {
  // Relaxed: it is stored under the mutex.
  cache_.Unpin(scanner->chunk, scanner->detached.load(std::memory_order_relaxed));
  scanner->chunk = nullptr;
}

void Coordinator::Wake() {
  woken_ = true;
  if (asleep_) work_.notify_one();
}

}  // namespace engine_race
