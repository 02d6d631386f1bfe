#include "engine_race/l1/frame_pool.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/swip.h"

namespace engine_race::l1 {

Status FramePool::Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                         std::unique_ptr<FramePool>* pool, const Placement& placement) {
  try {
    std::unique_ptr<FramePool> made(new FramePool(epochs));
    ENGINE_RACE_RETURN_IF_ERROR(made->frames_.Allocate(frame_bytes, frame_count, placement));
    made->limit_ = frame_count;
    made->CountSpare();
    *pool = std::move(made);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for frames");
  }
}

void FramePool::SetOwner(FrameKind kind, FrameOwner* owner, uint32_t max_count) {
  ENGINE_RACE_ASSERT(owner != nullptr);
  const std::lock_guard lock(mutex_);
  owners_.Set(kind, owner);
  max_counts_[static_cast<size_t>(kind)] = max_count;
}

void FramePool::RemoveOwner(FrameKind kind) noexcept {
  const auto evict = [&](uint32_t frame) {
    const State state = info(frame).state;
    const bool installed = state == State::kHot || state == State::kCooling;
    return !installed || info(frame).kind != kind || evictor_.Evict(frame, /*only_cooling=*/false);
  };
  // Each pass evicts the frames through which no others are reached any more.
  for (uint32_t pass = 0; pass <= kMaxDepth; ++pass) {
    if (ForEach(0, touched_count(), evict)) break;
  }
  const std::lock_guard lock(mutex_);
  Reclaim();
  CountSpare();
  ENGINE_RACE_ASSERT(evictor_.used_count(kind) == 0);
  owners_.Set(kind, nullptr);
}

uint32_t FramePool::Take(FrameKind kind) {
  for (uint32_t i = 0; i < kPatience; ++i) {
    {
      const std::lock_guard lock(mutex_);
      uint32_t frame = TakeFree(kind);
      if (frame != kNoFrame) return frame;
      // Evicts several frames before one look at the readers, which frees them all. If they wait
      // for readers, evicts another one now and then, which may have none.
      while (evictor_.retired_count() < BatchSize() && evictor_.EvictVictim()) {
      }
      if (i % kStuckTries == kStuckTries - 1) evictor_.EvictVictim();
      frame = TakeFree(kind);
      if (frame != kNoFrame) return frame;
    }
    // The evicted frames wait for readers, which never stay inside for long.
    std::this_thread::yield();
  }
  return kNoFrame;
}

std::unique_lock<std::mutex> FramePool::LockSoon() const noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (uint32_t i = 1; i < kLockTries && !lock.owns_lock(); ++i) {
    __builtin_ia32_pause();
    (void)lock.try_lock();
  }
  return lock;
}

uint32_t FramePool::TakeFree(FrameKind kind) {
  FreeReturned();
  if (left_count(kind) == 0) Reclaim();
  if (left_count(kind) == 0) return kNoFrame;
  if (free_.count() == 0 && frames_.touched_count() >= limit_) Reclaim();
  uint32_t frame = free_.first();
  if (frame != kNoFrame) {
    // Beside SetLimit it may lie at or above the new limit. Install refuses it then.
    free_.Remove(frame, State::kTaken);
  } else if (frames_.touched_count() < limit_) {
    frame = frames_.TouchNext();
    FrameInfo& own = info(frame);
    ENGINE_RACE_ASSERT(own.state == State::kOutside && own.children == nullptr);
    own.state = State::kTaken;
  }
  if (frame != kNoFrame) {
    info(frame).kind = kind;
    CountHeld(kind, 1);
  }
  CountSpare();
  return frame;
}

uint32_t FramePool::TakeInExchange(FrameKind kind, uint32_t reserve,
                                   FunctionRef<bool(uint32_t)> agrees) noexcept {
  const auto lock = LockSoon();
  if (!lock.owns_lock()) return kNoFrame;
  FreeReturned();
  const auto is_full = [&] { return spare_count() <= reserve || !MayHaveMore(kind); };
  // Several frames at once, because each call looks at every reader. A kind that may have few
  // frames needs one alone.
  const uint32_t batch_size =
      MayHaveMore(kind) ? BatchSize() : std::max(LeastLeft(kind), uint32_t{1});
  if (is_full() && evictor_.retired_count() >= batch_size) Reclaim();
  if (is_full()) {
    const uint32_t victim = evictor_.FindVictim();
    if (victim == kNoFrame) return kNoFrame;
    const bool makes_room = MayHaveMore(kind) || info(victim).kind == kind;
    if (!makes_room || !agrees(victim)) {
      evictor_.Spare(victim);
      return kNoFrame;
    }
    // Evicts no more frames while readers keep the evicted ones from being used again.
    const uint32_t max_retired = MayHaveMore(kind) ? reserve + BatchSize() : LeastLeft(kind);
    if (evictor_.retired_count() > max_retired || !evictor_.EvictVictim()) return kNoFrame;
  }
  return TakeFree(kind);
}

bool FramePool::LookAtVictim(FunctionRef<void(uint32_t)> look) noexcept {
  const auto lock = LockSoon();
  if (!lock.owns_lock()) return false;
  const uint32_t victim = evictor_.FindVictim();
  if (victim != kNoFrame) look(victim);
  return victim != kNoFrame;
}

void FramePool::GiveBack(uint32_t frame) noexcept {
  owners_.Release(frame, &info(frame));
  // Relaxed: the exchange below fails if it has changed.
  uint32_t last = returned_.load(std::memory_order_relaxed);
  do {
    info(frame).next = last;
    // Release: with the frame's description. Pairs with the acquire in FreeReturned.
  } while (!returned_.compare_exchange_weak(last, frame, std::memory_order_release,
                                            std::memory_order_relaxed));
  const auto lock = LockSoon();
  if (lock.owns_lock()) FreeReturned();
}

void FramePool::FreeReturned() {
  // Relaxed: a frame that is given back at this moment is freed by a later holder.
  if (returned_.load(std::memory_order_relaxed) == kNoFrame) return;
  // Acquire: pairs with the release in GiveBack.
  uint32_t frame = returned_.exchange(kNoFrame, std::memory_order_acquire);
  while (frame != kNoFrame) {
    const uint32_t before = info(frame).next;
    Free(frame);
    frame = before;
  }
}

void FramePool::Free(uint32_t frame) {
  ENGINE_RACE_ASSERT(info(frame).state == State::kTaken);
  // Relaxed: nobody else knows the frame.
  ENGINE_RACE_ASSERT(info(frame).child_count.load(std::memory_order_relaxed) == 0);
  CountHeld(info(frame).kind, -1);
  if (frame < limit_) {
    free_.Append(frame);
  } else {
    info(frame).state = State::kOutside;
  }
  CountSpare();
}

void FramePool::CountSpare() {
  const uint32_t touched_count = frames_.touched_count();
  // Relaxed: a hint.
  spare_count_.store(free_.count() + (limit_ > touched_count ? limit_ - touched_count : 0),
                     std::memory_order_relaxed);
}

// Under mutex_, so that no change is lost.
void FramePool::CountHeld(FrameKind kind, int32_t more) {
  std::atomic<uint32_t>& count = held_counts_[static_cast<size_t>(kind)];
  // Relaxed, both: other threads take it for a hint.
  const uint32_t held = count.load(std::memory_order_relaxed) + static_cast<uint32_t>(more);
  ENGINE_RACE_ASSERT(held <= frames_.frame_count());
  count.store(held, std::memory_order_relaxed);
}

bool FramePool::Install(uint32_t frame, FunctionRef<bool()> swizzle) {
  const std::lock_guard lock(mutex_);
  return InstallTaken(frame, swizzle);
}

bool FramePool::TryInstall(uint32_t frame, FunctionRef<bool()> swizzle) {
  const auto lock = LockSoon();
  return lock.owns_lock() && InstallTaken(frame, swizzle);
}

bool FramePool::InstallTaken(uint32_t frame, FunctionRef<bool()> swizzle) {
  ENGINE_RACE_ASSERT(info(frame).state == State::kTaken);
  if (IsBeyondLimit(frame) || !swizzle()) return false;
  evictor_.Admit(frame);
  // Only swizzle() knows the frame's parent, which may lie beyond the limit.
  if (IsBeyondLimit(frame)) evictor_.Evict(frame, /*only_cooling=*/false);
  // Frames are cooled before they are needed, so that readers have time to heat them.
  if (spare_count() < evictor_.wanted_cooling_count()) evictor_.CoolSome();
  return true;
}

bool FramePool::Remove(uint32_t frame) noexcept {
  const std::lock_guard lock(mutex_);
  const State state = info(frame).state;
  const bool installed = state == State::kHot || state == State::kCooling;
  return installed && evictor_.Evict(frame, /*only_cooling=*/false);
}

void FramePool::RemoveTree(const std::atomic<uint64_t>& swip, uint32_t child_count) noexcept {
  const std::lock_guard lock(mutex_);
  // Relaxed, both: swips become hot and cold under the mutex.
  const Swip root(swip.load(std::memory_order_relaxed));
  if (!root.hot()) return;
  const FrameInfo& own = info(root.number());
  for (uint32_t i = 0; i < child_count; ++i) {
    const Swip child(own.children[i].load(std::memory_order_relaxed));
    if (child.hot()) evictor_.Evict(child.number(), /*only_cooling=*/false);
  }
  evictor_.Evict(root.number(), /*only_cooling=*/false);
}

void FramePool::Reclaim() {
  FreeReturned();
  evictor_.Reclaim([this](uint32_t frame) { Free(frame); });
}

bool FramePool::EvictAhead(uint32_t wanted) noexcept {
  const auto lock = LockSoon();
  if (!lock.owns_lock()) return false;
  Reclaim();
  CountSpare();
  for (uint32_t i = BatchSize(); i > 0 && spare_count() + evictor_.retired_count() < wanted; --i) {
    if (!evictor_.EvictVictim()) return false;
  }
  return spare_count() + evictor_.retired_count() < wanted;
}

void FramePool::SetLimit(uint32_t limit) noexcept {
  const std::lock_guard resizing(resize_mutex_);
  limit = std::min(limit, frame_count());
  uint32_t touched_count;
  {
    const std::lock_guard lock(mutex_);
    const uint32_t old_limit = std::exchange(limit_, limit);
    if (old_limit < limit) Grow(old_limit);
    touched_count = frames_.touched_count();
    CountSpare();
  }
  // No frame at or above the limit is touched any more, so these are all. Frames below the limit
  // are looked at only if some are reached through these. Then each pass evicts those through which
  // no others are reached any more.
  const auto empty = [this](uint32_t frame) { return Empty(frame); };
  bool done = ForEach(std::min(limit, touched_count), touched_count, empty);
  for (uint32_t pass = 0; pass < kMaxDepth && !done; ++pass) {
    done = ForEach(0, touched_count, empty);
  }
  if (limit < touched_count) DropTail(limit);
  const uint32_t kept_end = std::max(limit, touched_count);
  frames_.GiveMemoryBack(kept_end, populated_end_);
  populated_end_ = std::min(populated_end_, kept_end);
}

bool FramePool::RaiseLimit(uint32_t limit) noexcept {
  const std::unique_lock resizing(resize_mutex_, std::try_to_lock);
  if (!resizing.owns_lock()) return false;
  frames_.Populate(limit_, limit);
  populated_end_ = std::max(populated_end_, limit);
  const auto lock = LockSoon();
  if (!lock.owns_lock()) return false;
  ENGINE_RACE_ASSERT(limit >= limit_ && limit <= frame_count());
  Grow(std::exchange(limit_, limit));
  CountSpare();
  return true;
}

// Frees the frames that an earlier, lower limit had left out.
void FramePool::Grow(uint32_t old_limit) {
  const uint32_t end = std::min(limit_, frames_.touched_count());
  for (uint32_t frame = old_limit; frame < end; ++frame) {
    if (info(frame).state == State::kOutside) free_.Append(frame);
  }
}

bool FramePool::ForEach(uint32_t begin, uint32_t end, FunctionRef<bool(uint32_t)> done) {
  bool all = true;
  for (; begin < end; begin += kMaxSteps) {
    const std::lock_guard lock(mutex_);
    const uint32_t count = std::min(end - begin, kMaxSteps);
    for (uint32_t frame = begin; frame < begin + count; ++frame) all = done(frame) && all;
  }
  return all;
}

// Whether the frame, or one through which it is reached, lies at or above the limit. For a frame
// that is described.
bool FramePool::IsBeyondLimit(uint32_t frame) const {
  for (; frame < limit_; frame = info(frame).parent_frame) continue;
  return frame != kNoFrame;
}

// False if the frame must be evicted for the limit, but other frames are reached through it.
bool FramePool::Empty(uint32_t frame) {
  switch (info(frame).state) {
    case State::kFree:
      if (frame < limit_) return true;
      free_.Remove(frame, State::kOutside);
      CountSpare();
      return true;
    case State::kHot:
    case State::kCooling:
      return !IsBeyondLimit(frame) || evictor_.Evict(frame, /*only_cooling=*/false);
    default:
      return true;
  }
}

void FramePool::DropTail(uint32_t limit) {
  uint32_t old_count = 0;
  uint32_t new_count = 0;
  for (uint32_t i = 0; i < kPatience; ++i) {
    {
      const std::lock_guard lock(mutex_);
      old_count = std::max(old_count, frames_.touched_count());
      Reclaim();
      while (frames_.touched_count() > limit &&
             info(frames_.touched_count() - 1).state == State::kOutside) {
        frames_.UntouchLast();
      }
      new_count = frames_.touched_count();
    }
    if (new_count == limit) break;
    std::this_thread::yield();
  }
  // These frames stay unused meanwhile: the limit is below them, and resize_mutex_ keeps it there.
  frames_.GiveMemoryBack(new_count, old_count);
}

uint32_t FramePool::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

uint32_t FramePool::used_count() const {
  const std::lock_guard lock(mutex_);
  return evictor_.used_count(FrameKind::kBlock) + evictor_.used_count(FrameKind::kValue);
}

uint32_t FramePool::used_count(FrameKind kind) const {
  const std::lock_guard lock(mutex_);
  return evictor_.used_count(kind);
}

uint32_t FramePool::touched_count() const {
  const std::lock_guard lock(mutex_);
  return frames_.touched_count();
}

size_t FramePool::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return frames_.memory_bytes();
}

}  // namespace engine_race::l1
