#include "engine_race/l1/frame_pool.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

Status FramePool::Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                         FrameOwner* owner, std::unique_ptr<FramePool>* pool,
                         const Placement& placement) {
  try {
    std::unique_ptr<FramePool> made(new FramePool(epochs, owner));
    ENGINE_RACE_RETURN_IF_ERROR(made->frames_.Allocate(frame_bytes, frame_count, placement));
    made->limit_ = frame_count;
    made->CountSpare();
    *pool = std::move(made);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for frames");
  }
}

uint32_t FramePool::Take() {
  for (uint32_t i = 0; i < kPatience; ++i) {
    {
      const std::lock_guard lock(mutex_);
      uint32_t frame = TakeFree();
      if (frame != kNoFrame) return frame;
      // Evicts several frames before one look at the readers, which frees them all. If they wait
      // for readers, evicts another one now and then, which may have none.
      while (evictor_.retired_count() < BatchSize() && evictor_.EvictVictim()) {
      }
      if (i % kStuckTries == kStuckTries - 1) evictor_.EvictVictim();
      frame = TakeFree();
      if (frame != kNoFrame) return frame;
    }
    // The evicted frames wait for readers, which never stay inside for long.
    std::this_thread::yield();
  }
  return kNoFrame;
}

uint32_t FramePool::TakeFree() {
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
  CountSpare();
  return frame;
}

uint32_t FramePool::TakeInExchange(uint32_t reserve, FunctionRef<bool(uint32_t)> agrees) noexcept {
  const std::lock_guard lock(mutex_);
  // Several frames at once, because each call looks at every reader.
  if (spare_count() <= reserve && evictor_.retired_count() >= BatchSize()) Reclaim();
  if (spare_count() <= reserve) {
    const uint32_t victim = evictor_.FindVictim();
    if (victim == kNoFrame) return kNoFrame;
    if (!agrees(victim)) {
      evictor_.Spare(victim);
      return kNoFrame;
    }
    // Evicts no more frames while readers keep the evicted ones from being used again.
    if (evictor_.retired_count() > reserve + BatchSize() || !evictor_.EvictVictim()) {
      return kNoFrame;
    }
  }
  return TakeFree();
}

bool FramePool::LookAtVictim(FunctionRef<void(uint32_t)> look) noexcept {
  const std::lock_guard lock(mutex_);
  const uint32_t victim = evictor_.FindVictim();
  if (victim != kNoFrame) look(victim);
  return victim != kNoFrame;
}

void FramePool::GiveBack(uint32_t frame) noexcept {
  owner_.Release(frame, &info(frame));
  const std::lock_guard lock(mutex_);
  Free(frame);
}

void FramePool::Free(uint32_t frame) {
  ENGINE_RACE_ASSERT(info(frame).state == State::kTaken);
  // Relaxed: nobody else knows the frame.
  ENGINE_RACE_ASSERT(info(frame).child_count.load(std::memory_order_relaxed) == 0);
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

bool FramePool::Install(uint32_t frame, FunctionRef<bool()> swizzle) {
  const std::lock_guard lock(mutex_);
  ENGINE_RACE_ASSERT(info(frame).state == State::kTaken);
  if (frame >= limit_ || !swizzle()) return false;
  evictor_.Admit(frame);
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

void FramePool::Reclaim() {
  evictor_.Reclaim([this](uint32_t frame) { Free(frame); });
}

bool FramePool::EvictAhead(uint32_t wanted) noexcept {
  const std::lock_guard lock(mutex_);
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
  // No frame at or above the limit is touched any more, so these are all.
  for (uint32_t begin = limit; begin < touched_count; begin += kMaxSteps) {
    const std::lock_guard lock(mutex_);
    const uint32_t end = std::min(touched_count, begin + kMaxSteps);
    for (uint32_t frame = begin; frame < end; ++frame) Empty(frame);
  }
  if (limit < touched_count) DropTail(limit);
}

// Frees the frames that an earlier, lower limit had left out.
void FramePool::Grow(uint32_t old_limit) {
  const uint32_t end = std::min(limit_, frames_.touched_count());
  for (uint32_t frame = old_limit; frame < end; ++frame) {
    if (info(frame).state == State::kOutside) free_.Append(frame);
  }
}

void FramePool::Empty(uint32_t frame) {
  ENGINE_RACE_ASSERT(frame >= limit_);
  switch (info(frame).state) {
    case State::kFree:
      free_.Remove(frame, State::kOutside);
      CountSpare();
      break;
    case State::kHot:
    case State::kCooling:
      evictor_.Evict(frame, /*only_cooling=*/false);
      break;
    default:
      break;
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
  return evictor_.used_count();
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
