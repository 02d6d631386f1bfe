// The calls of scans, each from its own thread.
#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/scan/coordinator.h"

namespace engine_race {

namespace {

// One buffer in so many is never lent, nor is more than this: lent buffers cannot be taken away.
constexpr uint32_t kKeptFraction = 4;
constexpr uint64_t kMostLentBytes = 64 * 1024 * 1024;

// Enough for a chunk to grow from one buffer to all buffers of any memory.
constexpr uint32_t kMaxDoublings = 24;

}  // namespace

bool Coordinator::Holds(uint64_t pos) const {
  std::lock_guard lock(mutex_);
  return board_.cache().Find(pos) != nullptr;
}

Chunk* Coordinator::Next(Scanner* scanner, uint64_t pos) {
  std::unique_lock lock(mutex_);
  const bool goes_on = scanner->chunk != nullptr;
  if (goes_on) {
    LetGo(scanner);
    // The scan was recalled before the chunk's end.
    if (scanner->finishing || pos < scanner->pos) {
      scanner->finishing = scanner->covered = false;
      scanner->frontier = pos;
    }
  }
  scanner->pos = pos;
  const bool begins = !scanner->attached;
  if (begins && !board_.Attach(scanner)) return nullptr;
  Chunk* chunk = board_.cache().Find(pos);
  const bool served = chunk != nullptr && ScanBoard::Serves(*chunk, *scanner);
  const bool must_wait = !served || !chunk->ready();
  if (goes_on && must_wait) scanner->doublings = std::min(scanner->doublings + 1, kMaxDoublings);
  if (served) {
    // The first scan in a chunk has less loaded before it now.
    if (begins || chunk->pins == 0) Wake();
    Give(scanner, chunk);
    return chunk;
  }
  waits_.Begin(scanner);
  Wake();
  scanner->answered.wait(lock, [scanner] { return !scanner->waiting; });
  ENGINE_RACE_ASSERT(scanner->chunk == nullptr || scanner->chunk->pins > 0);
  return scanner->chunk;
}

void Coordinator::Condemn(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  ENGINE_RACE_ASSERT(scanner->chunk != nullptr && scanner->chunk->pins > 0);
  scanner->chunk->doomed = true;
}

void Coordinator::Leave(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  if (scanner->chunk != nullptr) LetGo(scanner);
  if (!scanner->attached) return;
  board_.Detach(scanner);
  Wake();
}

void Coordinator::Lend(uint32_t count, std::vector<uint32_t>* buffers) noexcept {
  ENGINE_RACE_ASSERT(buffers->empty());
  // Refused memory lends nothing.
  (void)Guarded([&] {
    std::unique_lock lock(mutex_);
    ENGINE_RACE_RETURN_IF_ERROR(AllocateBuffers());
    const BufferPool& pool = board_.cache().pool();
    FitShare();
    if (share_ != nullptr && count > pool.free_count() && pool.limit() < pool.buffer_count()) {
      const uint64_t new_count = count - pool.used_free_count();
      // Without the mutex, because another user of the memory may be called.
      lock.unlock();
      (void)share_->Want(new_count * board_.cache().booked_bytes());
      lock.lock();
      FitShare();
    }
    const uint32_t most_lent = std::min(pool.limit() - pool.limit() / kKeptFraction,
                                        context_->layout.BuffersIn(kMostLentBytes));
    uint32_t most = std::min(count, most_lent - std::min(most_lent, board_.lent_count()));
    NextLoad load;
    load.waited_for = true;
    if (!board_.MakeRoom(load, most, pool.free_count())) most = std::min(most, pool.free_count());
    // Buffers that were free may have been booked for something else.
    while (most > 0 && !board_.cache().TakeBuffers(most, buffers)) most /= 2;
    board_.CountLent(most);
    return Status::Ok();
  });
}

void Coordinator::TakeBack(uint32_t keep_count, std::vector<uint32_t>* buffers) noexcept {
  std::lock_guard lock(mutex_);
  board_.CountReturned(static_cast<uint32_t>(buffers->size()) - keep_count);
  board_.cache().GiveBuffers(keep_count, buffers);
  // Memory that the share did not allow any more could not be given back while it was lent.
  FitShare();
  Wake();
}

void Coordinator::ShrinkTo(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  board_.cache().SetLimit(bytes);
  board_.FitLimit();
}

void Coordinator::LetGo(Scanner* scanner) {
  // A chunk that no scan is in may be evicted.
  if (board_.cache().Unpin(scanner->chunk)) Wake();
  scanner->chunk = nullptr;
}

void Coordinator::Wake() {
  woken_ = true;
  if (asleep_) work_.notify_one();
}

}  // namespace engine_race
