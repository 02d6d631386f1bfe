#include "engine_race/l1/frame_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "engine_race/base/round_up.h"

namespace engine_race::l1 {

Status FramePool::Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                         FrameOwner* owner, std::unique_ptr<FramePool>* pool) {
  try {
    std::unique_ptr<FramePool> made(new FramePool(frame_bytes, frame_count, epochs, owner));
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(frame_bytes * frame_count, /*huge_pages=*/true, &made->memory_));
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(sizeof(FrameInfo) * frame_count,
                                                 /*huge_pages=*/false, &made->info_memory_));
    made->CountSpare();
    *pool = std::move(made);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for frames");
  }
}

FramePool::~FramePool() { std::destroy_n(infos(), made_count_); }

void FramePool::Append(Line* line, uint32_t frame, State state) {
  FrameInfo& own = info(frame);
  own.state = state;
  own.previous = line->last;
  own.next = kNoFrame;
  if (line->last == kNoFrame) {
    line->first = frame;
  } else {
    info(line->last).next = frame;
  }
  line->last = frame;
  ++line->count;
}

void FramePool::Unlink(Line* line, uint32_t frame) {
  const FrameInfo& own = info(frame);
  if (own.previous == kNoFrame) {
    line->first = own.next;
  } else {
    info(own.previous).next = own.next;
  }
  if (own.next == kNoFrame) {
    line->last = own.previous;
  } else {
    info(own.next).previous = own.previous;
  }
  --line->count;
}

uint32_t FramePool::Take() {
  for (uint32_t i = 0; i < kPatience; ++i) {
    {
      const std::lock_guard lock(mutex_);
      uint32_t frame = TakeFree();
      if (frame != kNoFrame) return frame;
      // Several at a time, because one look at who is inside the epoch frees them all. While those
      // wait for readers, only now and then another one, that may have none.
      while (retired_.count < BatchSize() && EvictVictim()) {
      }
      if (i % kStuckTries == kStuckTries - 1) EvictVictim();
      frame = TakeFree();
      if (frame != kNoFrame) return frame;
    }
    // What was taken out of reach waits for readers, which never stay long.
    std::this_thread::yield();
  }
  return kNoFrame;
}

uint32_t FramePool::TakeFree() {
  if (free_.count == 0 && touched_count_ >= limit_) Reclaim();
  uint32_t frame = free_.first;
  if (frame != kNoFrame) {
    Unlink(&free_, frame);
  } else if (touched_count_ < limit_) {
    frame = touched_count_++;
    if (frame == made_count_) new (&infos()[made_count_++]) FrameInfo();
  }
  if (frame != kNoFrame) info(frame).state = State::kTaken;
  CountSpare();
  return frame;
}

void FramePool::GiveBack(uint32_t frame) noexcept {
  info(frame).children.reset();
  const std::lock_guard lock(mutex_);
  Free(frame);
}

void FramePool::Free(uint32_t frame) {
  if (frame < limit_) {
    Append(&free_, frame, State::kFree);
  } else {
    info(frame).state = State::kOutside;
  }
  CountSpare();
}

bool FramePool::InstallBlock(uint32_t frame, Swip expected) {
  FrameInfo& own = info(frame);
  if (own.parent_frame != kNoFrame && !info(own.parent_frame).AddChild()) return false;
  const bool installed = Install(frame, [&] {
    uint64_t word = expected.word();
    // Release: the frame's bytes before its number; pairs with the loads of readers.
    return own.parent->compare_exchange_strong(
        word, expected.In(frame).word(), std::memory_order_release, std::memory_order_relaxed);
  });
  if (!installed && own.parent_frame != kNoFrame) info(own.parent_frame).RemoveChild();
  return installed;
}

bool FramePool::Remove(uint32_t frame) noexcept {
  const std::lock_guard lock(mutex_);
  const State state = info(frame).state;
  const bool installed = state == State::kHot || state == State::kCooling;
  return installed && Evict(frame, /*only_cooling=*/false);
}

// Keeps a part of the frames cooling.
void FramePool::CoolSome() {
  const uint32_t wanted = CoolingSize();
  const uint32_t steps = std::min(touched_count_, kMaxSteps);
  for (uint32_t i = 0; i < steps && cooling_.count < wanted; ++i) {
    const uint32_t frame = hand_ < touched_count_ ? hand_ : 0;
    hand_ = frame + 1;
    if (info(frame).state != State::kHot) continue;
    switch (owner_.Cool(frame)) {
      case FrameOwner::Cooled::kMarked:
        Append(&cooling_, frame, State::kCooling);
        break;
      case FrameOwner::Cooled::kStays:
        break;
      case FrameOwner::Cooled::kGone:
        Evict(frame, /*only_cooling=*/false);
        break;
    }
  }
}

// Who stands at the front of the line, those that were heated sent away.
uint32_t FramePool::FindVictim() {
  for (uint32_t i = 0; i < kMaxSteps; ++i) {
    CoolSome();
    const uint32_t frame = cooling_.first;
    if (frame == kNoFrame) break;
    if (!owner_.WasHeated(frame)) return frame;
    Unlink(&cooling_, frame);
    info(frame).state = State::kHot;
  }
  return kNoFrame;
}

bool FramePool::EvictVictim() {
  const uint32_t frame = FindVictim();
  if (frame == kNoFrame) return false;
  if (Evict(frame, /*only_cooling=*/true)) return true;
  // Heated just now, or something is reached through it.
  Unlink(&cooling_, frame);
  info(frame).state = State::kHot;
  return false;
}

bool FramePool::Evict(uint32_t frame, bool only_cooling) {
  if (!owner_.Unswizzle(frame, only_cooling)) return false;
  if (info(frame).state == State::kCooling) Unlink(&cooling_, frame);
  Append(&retired_, frame, State::kRetired);
  info(frame).retired_epoch = epochs_->Retire();
  --used_count_;
  evictions_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  return true;
}

void FramePool::Reclaim() {
  if (retired_.count == 0) return;
  const uint64_t safe = epochs_->SafeBelow();
  for (uint32_t i = retired_.count; i > 0; --i) {
    const uint32_t frame = retired_.first;
    FrameInfo& own = info(frame);
    if (own.retired_epoch >= safe) break;
    Unlink(&retired_, frame);
    // Sequentially consistent, as is what readers do who count themselves: they come first and then
    // look whether the swip still leads here, which it had ceased to do.
    if (own.reader_count.load(std::memory_order_seq_cst) != 0) {
      Append(&retired_, frame, State::kRetired);
      continue;
    }
    own.children.reset();
    own.child_count.store(0, std::memory_order_relaxed);  // nobody else knows it
    Free(frame);
  }
}

bool FramePool::EvictAhead(uint32_t wanted) noexcept {
  const std::lock_guard lock(mutex_);
  Reclaim();
  CountSpare();
  for (uint32_t i = BatchSize(); i > 0 && spare_count() + retired_.count < wanted; --i) {
    if (!EvictVictim()) return false;
  }
  return spare_count() + retired_.count < wanted;
}

void FramePool::SetLimit(uint32_t limit) noexcept {
  const std::lock_guard resizing(resize_mutex_);
  limit = std::min(limit, frame_count_);
  uint32_t touched_count;
  {
    const std::lock_guard lock(mutex_);
    const uint32_t old_limit = std::exchange(limit_, limit);
    if (old_limit < limit) Grow(old_limit);
    touched_count = touched_count_;
    CountSpare();
  }
  // No frame is used for the first time at or above the limit, so these are all.
  for (uint32_t begin = limit; begin < touched_count; begin += kMaxSteps) {
    const std::lock_guard lock(mutex_);
    const uint32_t end = std::min(touched_count, begin + kMaxSteps);
    for (uint32_t frame = begin; frame < end; ++frame) Empty(frame);
  }
  if (limit < touched_count) DropTail(limit);
}

// Frames that were left over by an earlier, lower limit are free again.
void FramePool::Grow(uint32_t old_limit) {
  for (uint32_t frame = old_limit; frame < std::min(limit_, touched_count_); ++frame) {
    if (info(frame).state == State::kOutside) Free(frame);
  }
}

void FramePool::Empty(uint32_t frame) {
  switch (info(frame).state) {
    case State::kFree:
      Unlink(&free_, frame);
      info(frame).state = State::kOutside;
      CountSpare();
      break;
    case State::kHot:
    case State::kCooling:
      Evict(frame, /*only_cooling=*/false);
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
      old_count = std::max(old_count, touched_count_);
      Reclaim();
      while (touched_count_ > limit && info(touched_count_ - 1).state == State::kOutside) {
        --touched_count_;
      }
      new_count = touched_count_;
    }
    if (new_count == limit) break;
    std::this_thread::yield();
  }
  // Nobody takes them meanwhile: the limit is below, and who would raise it waits.
  constexpr size_t kPage = kIoAlignment;
  const size_t begin = RoundUp(new_count * frame_bytes_, kPage);
  const size_t end = old_count * frame_bytes_ / kPage * kPage;
  // Advice only: what it fails to give back is used again later.
  if (begin < end) ::madvise(memory_.data() + begin, end - begin, MADV_DONTNEED);
}

uint32_t FramePool::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

uint32_t FramePool::used_count() const {
  const std::lock_guard lock(mutex_);
  return used_count_;
}

uint32_t FramePool::touched_count() const {
  const std::lock_guard lock(mutex_);
  return touched_count_;
}

size_t FramePool::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_t{touched_count_} * frame_bytes_ + size_t{made_count_} * sizeof(FrameInfo);
}

std::atomic<uint64_t>* FramePool::Blocks::ParentOf(uint32_t frame, uint32_t* parent_frame) const {
  const FrameInfo& own = pool_.info(frame);
  if (own.tag != 0) {
    return reinterpret_cast<const ParentFinder*>(own.tag)->FindParent(frame, parent_frame);
  }
  *parent_frame = own.parent_frame;
  return own.parent;
}

FrameOwner::Cooled FramePool::Blocks::Cool(uint32_t frame) noexcept {
  // Relaxed, all: a mark that orders nothing; what it leads to is decided later.
  if (pool_.info(frame).child_count.load(std::memory_order_relaxed) != 0) return Cooled::kStays;
  uint32_t parent_frame;
  std::atomic<uint64_t>* const parent = ParentOf(frame, &parent_frame);
  uint64_t word = parent->load(std::memory_order_relaxed);
  const bool marked =
      parent->compare_exchange_strong(word, Swip(word).Cooling().word(), std::memory_order_relaxed);
  return marked ? Cooled::kMarked : Cooled::kStays;
}

bool FramePool::Blocks::WasHeated(uint32_t frame) noexcept {
  uint32_t parent_frame;
  // Relaxed: the mark orders nothing.
  return !Swip(ParentOf(frame, &parent_frame)->load(std::memory_order_relaxed)).cooling();
}

bool FramePool::Blocks::Unswizzle(uint32_t frame, bool only_cooling) noexcept {
  FrameInfo& own = pool_.info(frame);
  if (!own.Close()) return false;
  uint32_t parent_frame;
  std::atomic<uint64_t>* const parent = ParentOf(frame, &parent_frame);
  // Relaxed: the exchange decides.
  uint64_t word = parent->load(std::memory_order_relaxed);
  do {
    if (only_cooling && !Swip(word).cooling()) {
      // Release: pairs with the acquire of AddChild.
      own.child_count.store(0, std::memory_order_release);
      return false;
    }
    // Sequentially consistent: before Retire and before readers' epochs are looked at. A failure is
    // the owner's bits changing, or the mark.
  } while (!parent->compare_exchange_weak(word, Swip(word).At(own.place).word(),
                                          std::memory_order_seq_cst, std::memory_order_relaxed));
  // A block whose blocks have all gone is of no more use than they were.
  if (parent_frame != kNoFrame && pool_.info(parent_frame).RemoveChild()) {
    pool_.CoolNow(parent_frame);
  }
  return true;
}

void FramePool::CoolNow(uint32_t frame) {
  if (info(frame).state != State::kHot) return;
  if (owner_.Cool(frame) == FrameOwner::Cooled::kMarked) {
    Append(&cooling_, frame, State::kCooling);
  }
}

}  // namespace engine_race::l1
