#include "engine_race/l1/frame_evictor.h"

#include <algorithm>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

void FrameEvictor::Admit(uint32_t frame) {
  FrameInfo& own = frames_.info(frame);
  ENGINE_RACE_ASSERT(own.state == State::kTaken);
  own.state = State::kHot;
  uint32_t& used_count = used_counts_[static_cast<size_t>(own.kind)];
  ++used_count;
  ENGINE_RACE_ASSERT(used_count + retired_.count() <= frames_.touched_count());
  if (own.is_stopgap) PassHand(frame);
}

void FrameEvictor::CoolSome() {
  const uint32_t wanted = wanted_cooling_count();
  const uint32_t touched_count = frames_.touched_count();
  const uint32_t steps = std::min(touched_count, kMaxSteps);
  for (uint32_t i = 0; i < steps && cooling_.count() < wanted; ++i) {
    const uint32_t frame = hand_ < touched_count ? hand_ : 0;
    hand_ = frame + 1;
    PassHand(frame);
  }
}

void FrameEvictor::PassHand(uint32_t frame) {
  if (frames_.info(frame).state != State::kHot) return;
  switch (Cool(frame)) {
    case FrameOwner::Cooled::kCooling:
      cooling_.Append(frame);
      break;
    case FrameOwner::Cooled::kInUse:
      break;
    case FrameOwner::Cooled::kOrphaned:
      Evict(frame, /*only_cooling=*/false);
      break;
  }
}

FrameOwner::Cooled FrameEvictor::Cool(uint32_t frame) {
  FrameInfo& own = frames_.info(frame);
  // Relaxed: eviction checks this again.
  const bool has_children = own.child_count.load(std::memory_order_relaxed) != 0;
  return has_children ? FrameOwner::Cooled::kInUse : owners_.Of(own).Cool(frame, &own);
}

uint32_t FrameEvictor::FindVictim() {
  for (uint32_t i = 0; i < kMaxSteps; ++i) {
    CoolSome();
    const uint32_t frame = cooling_.first();
    if (frame == kNoFrame) break;
    FrameInfo& own = frames_.info(frame);
    if (!owners_.Of(own).WasHeated(frame, &own)) return frame;
    own.is_stopgap = false;
    Spare(frame);
  }
  return kNoFrame;
}

void FrameEvictor::Spare(uint32_t victim) { cooling_.Remove(victim, State::kHot); }

bool FrameEvictor::EvictVictim() {
  const uint32_t frame = FindVictim();
  if (frame == kNoFrame) return false;
  if (Evict(frame, /*only_cooling=*/true)) return true;
  // A reader has just heated the frame, or another frame is reached through it.
  Spare(frame);
  return false;
}

bool FrameEvictor::Evict(uint32_t frame, bool only_cooling) {
  FrameInfo& own = frames_.info(frame);
  ENGINE_RACE_ASSERT(own.state == State::kHot || own.state == State::kCooling);
  if (!own.Close()) return false;
  if (!owners_.Of(own).Unswizzle(frame, &own, only_cooling)) {
    own.Reopen();
    return false;
  }
  // A block without hot children is needed as little as they were, so it cools at once.
  const uint32_t parent = own.parent_frame;
  if (parent != kNoFrame && frames_.info(parent).RemoveChild() &&
      frames_.info(parent).state == State::kHot && Cool(parent) == FrameOwner::Cooled::kCooling) {
    cooling_.Append(parent);
  }
  if (own.state == State::kCooling) cooling_.Remove(frame, State::kHot);
  retired_.Append(frame);
  own.retired_epoch = epochs_.Retire();
  const auto kind = static_cast<size_t>(own.kind);
  ENGINE_RACE_ASSERT(used_counts_[kind] > 0);
  --used_counts_[kind];
  evictions_[kind].fetch_add(1, std::memory_order_relaxed);  // a statistic
  return true;
}

void FrameEvictor::Reclaim(FunctionRef<void(uint32_t)> free) {
  if (retired_.count() == 0) return;
  const uint64_t safe = epochs_.SafeBelow();
  for (uint32_t i = retired_.count(); i > 0; --i) {
    const uint32_t frame = retired_.first();
    FrameInfo& own = frames_.info(frame);
    if (own.retired_epoch >= safe) break;
    retired_.Remove(frame, State::kTaken);
    owners_.Release(frame, &own);
    own.Reopen();
    free(frame);
  }
}

}  // namespace engine_race::l1
