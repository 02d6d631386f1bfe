#include "engine_race/l1/block_owner.h"

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

bool BlockOwner::Install(FramePool* pool, uint32_t frame, Swip expected) {
  ENGINE_RACE_ASSERT(!expected.hot());
  FrameInfo& own = pool->info(frame);
  if (own.parent_frame != kNoFrame && !pool->info(own.parent_frame).AddChild()) return false;
  const bool installed = pool->Install(frame, [&] {
    uint64_t word = expected.word();
    // Release: the frame was filled before its number is stored. Pairs with the loads of readers.
    return own.parent->compare_exchange_strong(
        word, expected.In(frame).word(), std::memory_order_release, std::memory_order_relaxed);
  });
  if (!installed && own.parent_frame != kNoFrame) pool->info(own.parent_frame).RemoveChild();
  return installed;
}

FrameOwner::Cooled BlockOwner::Cool(uint32_t frame, FrameInfo* info) noexcept {
  // Relaxed, both: the cooling bit orders nothing.
  uint64_t word = info->parent->load(std::memory_order_relaxed);
  ENGINE_RACE_ASSERT(Swip(word).hot() && Swip(word).number() == frame);
  const bool marked = info->parent->compare_exchange_strong(word, Swip(word).Cooling().word(),
                                                            std::memory_order_relaxed);
  return marked ? Cooled::kCooling : Cooled::kInUse;
}

bool BlockOwner::WasHeated(uint32_t /*frame*/, FrameInfo* info) noexcept {
  // Relaxed: the cooling bit orders nothing.
  return !Swip(info->parent->load(std::memory_order_relaxed)).cooling();
}

bool BlockOwner::Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept {
  // Relaxed: the exchange decides.
  uint64_t word = info->parent->load(std::memory_order_relaxed);
  do {
    ENGINE_RACE_ASSERT(Swip(word).hot() && Swip(word).number() == frame);
    if (only_cooling && !Swip(word).cooling()) return false;
    // Sequentially consistent: before Retire and before the look at the readers' epochs. Fails if
    // the owner's bits or the cooling bit have changed.
  } while (!info->parent->compare_exchange_weak(word, Swip(word).At(info->place).word(),
                                                std::memory_order_seq_cst,
                                                std::memory_order_relaxed));
  return true;
}

void BlockOwner::Release(uint32_t /*frame*/, FrameInfo* info) noexcept { info->children.reset(); }

}  // namespace engine_race::l1
