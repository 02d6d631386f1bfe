#include "engine_race/l1/frame_pool.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace engine_race::l1 {

Status FramePool::Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                         FrameOwner* owner, std::unique_ptr<FramePool>* pool) {
  try {
    std::unique_ptr<FramePool> made(new FramePool(frame_bytes, frame_count, epochs, owner));
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(frame_bytes * frame_count, /*huge_pages=*/true, &made->memory_));
    made->infos_ = std::make_unique<FrameInfo[]>(frame_count);
    made->states_.assign(frame_count, State::kFree);
    made->free_.reserve(frame_count);
    *pool = std::move(made);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for frames");
  }
}

uint32_t FramePool::Take() {
  for (uint32_t i = 0; i < kPatience; ++i) {
    const uint32_t frame = TakeFree();
    if (frame != kNoFrame) return frame;
    // What was taken out of reach waits for readers, which never stay long.
    std::this_thread::yield();
  }
  return kNoFrame;
}

uint32_t FramePool::TakeFree() {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && touched_ < frame_count_) {
    free_.push_back(touched_++);
  }
  if (free_.empty()) {
    CoolSome();
    EvictOne();
    Reclaim();
  }
  if (free_.empty()) return kNoFrame;
  const uint32_t frame = free_.back();
  free_.pop_back();
  states_[frame] = State::kTaken;
  return frame;
}

void FramePool::GiveBack(uint32_t frame) {
  infos_[frame].children.reset();
  const std::lock_guard lock(mutex_);
  states_[frame] = State::kFree;
  free_.push_back(frame);
}

bool FramePool::InstallBlock(uint32_t frame, Swip expected) {
  FrameInfo& info = infos_[frame];
  if (info.parent_frame != kNoFrame && !infos_[info.parent_frame].AddChild()) return false;
  const bool installed = Install(frame, [&] {
    uint64_t word = expected.word();
    // Release: the frame's bytes before its number; pairs with the loads of readers.
    return info.parent->compare_exchange_strong(
        word, expected.In(frame).word(), std::memory_order_release, std::memory_order_relaxed);
  });
  if (!installed && info.parent_frame != kNoFrame) infos_[info.parent_frame].RemoveChild();
  return installed;
}

bool FramePool::Remove(uint32_t frame) {
  const std::lock_guard lock(mutex_);
  if (states_[frame] != State::kHot && states_[frame] != State::kCooling) return false;
  return Evict(frame, /*only_cooling=*/false);
}

// Keeps a part of the frames cooling.
void FramePool::CoolSome() {
  const size_t wanted = std::max<size_t>(1, size_t{frame_count_} * kCoolingPercent / 100);
  for (uint32_t i = 0; i < frame_count_ && cooling_.size() < wanted; ++i) {
    const uint32_t frame = hand_;
    hand_ = hand_ + 1 == frame_count_ ? 0 : hand_ + 1;
    if (states_[frame] == State::kHot && owner_.Cool(frame)) {
      states_[frame] = State::kCooling;
      cooling_.push_back(frame);
    }
  }
}

bool FramePool::Blocks::Cool(uint32_t frame) noexcept {
  FrameInfo& info = pool_.infos_[frame];
  // Relaxed, all: a mark that orders nothing; what it leads to is decided later.
  if (info.child_count.load(std::memory_order_relaxed) != 0) return false;
  uint64_t word = info.parent->load(std::memory_order_relaxed);
  return info.parent->compare_exchange_strong(word, Swip(word).Cooling().word(),
                                              std::memory_order_relaxed);
}

bool FramePool::Blocks::Unswizzle(uint32_t frame, bool only_cooling) noexcept {
  FrameInfo& info = pool_.infos_[frame];
  if (!info.Close()) return false;
  // Relaxed: the exchange decides.
  uint64_t word = info.parent->load(std::memory_order_relaxed);
  do {
    const Swip swip(word);
    if (only_cooling && !swip.cooling()) {
      // Release: pairs with the acquire of AddChild.
      info.child_count.store(0, std::memory_order_release);
      return false;
    }
    // Sequentially consistent: before Retire and before readers' epochs are looked at. A failure is
    // the owner's bits changing, or the mark.
  } while (!info.parent->compare_exchange_weak(word, Swip(word).At(info.place).word(),
                                               std::memory_order_seq_cst,
                                               std::memory_order_relaxed));
  if (info.parent_frame != kNoFrame) pool_.infos_[info.parent_frame].RemoveChild();
  return true;
}

bool FramePool::EvictOne() {
  while (!cooling_.empty()) {
    const uint32_t frame = cooling_.front();
    cooling_.pop_front();
    // It may have been removed meanwhile, and even used again.
    if (states_[frame] != State::kCooling) continue;
    if (Evict(frame, /*only_cooling=*/true)) return true;
    states_[frame] = State::kHot;
  }
  return false;
}

bool FramePool::Evict(uint32_t frame, bool only_cooling) {
  if (!owner_.Unswizzle(frame, only_cooling)) return false;
  states_[frame] = State::kRetired;
  retired_.push_back({frame, epochs_->Retire()});
  evictions_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  return true;
}

void FramePool::Reclaim() {
  if (retired_.empty()) return;
  const uint64_t safe = epochs_->SafeBelow();
  while (!retired_.empty() && retired_.front().epoch < safe) {
    const uint32_t frame = retired_.front().frame;
    // Sequentially consistent: behind what took the frame out of reach, as a reader looks whether
    // it still is in reach behind counting itself. Also an acquire: pairs with the reader's
    // release.
    if (infos_[frame].reader_count.load(std::memory_order_seq_cst) != 0) return;
    retired_.pop_front();
    infos_[frame].children.reset();
    infos_[frame].child_count.store(0, std::memory_order_relaxed);  // nobody else knows it
    states_[frame] = State::kFree;
    free_.push_back(frame);
  }
}

uint32_t FramePool::used_count() const {
  const std::lock_guard lock(mutex_);
  return touched_ - static_cast<uint32_t>(free_.size());
}

size_t FramePool::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_t{touched_} * frame_bytes_ + size_t{frame_count_} * sizeof(FrameInfo);
}

}  // namespace engine_race::l1
