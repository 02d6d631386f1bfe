#include "engine_race/l1/frame_cache.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/swip.h"

namespace engine_race::l1 {

namespace {

// The memory of a frame's description, beside its bytes.
constexpr uint64_t kDescriptionBytes = sizeof(FrameInfo) + sizeof(std::atomic<uint32_t>);
// The part of the frames that is kept free when all others are in use, and its upper limit.
constexpr uint32_t kReserveFraction = 32;
constexpr uint32_t kMaxReserve = 64;
// The part of a cache that its descriptions may take. Where frames are small there are so few.
constexpr uint64_t kDescriptionsFraction = 4;

}  // namespace

uint64_t FrameCache::FixedBytes(uint32_t max_count) {
  return sizeof(FrameCache) + EpochManager::MemoryBytes() +
         FrequencySketch::MemoryBytes(max_count) + max_count * kDescriptionBytes;
}

uint64_t FrameCache::BytesFor(uint32_t frame_count, size_t frame_bytes) {
  return FixedBytes(frame_count) + uint64_t{frame_count} * frame_bytes;
}

FrameCache::FrameCache(MemoryShare* share, size_t frame_bytes, EpochManager* epochs)
    : share_(share),
      frame_bytes_(frame_bytes),
      step_frames_(static_cast<uint32_t>(std::max<size_t>(kStepBytes / frame_bytes, 1))),
      own_epochs_(epochs == nullptr ? std::make_unique<EpochManager>() : nullptr),
      epochs_(epochs == nullptr ? *own_epochs_ : *epochs),
      least_growth_bytes_(frame_bytes) {}

Status FrameCache::Create(uint64_t max_bytes, MemoryShare* share,
                          std::unique_ptr<FrameCache>* cache, const Placement& placement,
                          size_t frame_bytes, EpochManager* epochs) {
  ENGINE_RACE_ASSERT(frame_bytes > 0 && frame_bytes % alignof(FrameInfo) == 0);
  cache->reset();
  // As many frames as fit together with their descriptions.
  auto count = static_cast<uint32_t>(
      std::min({max_bytes / (frame_bytes + kBytesBesideFrame),
                max_bytes / kDescriptionsFraction / kBytesBesideFrame, Swip::kNumberMask}));
  while (count > 0 && BytesFor(count, frame_bytes) > max_bytes) --count;
  if (count == 0) return Status::Ok();
  return Guarded([&] {
    std::unique_ptr<FrameCache> made(new FrameCache(share, frame_bytes, epochs));
    ENGINE_RACE_RETURN_IF_ERROR(made->sketch_.Allocate(count, placement));
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * sizeof(std::atomic<uint32_t>),
                                                 /*huge_pages=*/false, &made->word_memory_,
                                                 placement));
    ENGINE_RACE_RETURN_IF_ERROR(
        FramePool::Create(frame_bytes, count, &made->epochs_, &made->pool_, placement));
    if (share != nullptr && !share->Book(FixedBytes(count))) return Status::Ok();
    made->SetLimit(share != nullptr ? FixedBytes(count) : max_bytes);
    *cache = std::move(made);
    return Status::Ok();
  });
}

FrameCache::~FrameCache() {
  // Relaxed: no other thread uses the frames.
  if (share_ != nullptr) share_->Cancel(booked_bytes_.load(std::memory_order_relaxed));
}

uint32_t FrameCache::CountFor(uint64_t limit_bytes) const {
  const uint64_t fixed_bytes = FixedBytes(pool_->frame_count());
  if (limit_bytes < fixed_bytes) return 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>((limit_bytes - fixed_bytes) / frame_bytes_, pool_->frame_count()));
}

void FrameCache::SetLimit(uint64_t limit_bytes) noexcept {
  const std::lock_guard lock(limit_mutex_);
  booked_bytes_.store(limit_bytes, std::memory_order_relaxed);
  ApplyBooked();
}

void FrameCache::ApplyBooked() noexcept {
  // The hints come first, so that no thread fills frames that are about to be evicted.
  UpdateHints();
  // Relaxed: under limit_mutex_.
  pool_->SetLimit(CountFor(booked_bytes_.load(std::memory_order_relaxed)));
}

// The hints assume that all memory that can be booked will be booked.
void FrameCache::UpdateHints() noexcept {
  // Relaxed, all: under limit_mutex_, or hints. Stored only when they change, because every hit
  // reads them.
  const uint32_t count = CountFor(booked_bytes_.load(std::memory_order_relaxed));
  const uint32_t limit_count =
      share_ == nullptr ? count : std::max(count, CountFor(share_->LimitBytes()));
  const int64_t scarce_count =
      int64_t{limit_count / kScarceFraction} - int64_t{limit_count - count};
  if (scarce_count_.load(std::memory_order_relaxed) != scarce_count) {
    scarce_count_.store(scarce_count, std::memory_order_relaxed);
  }
  const bool may_grow = uint64_t{limit_count - count} * frame_bytes_ >=
                        least_growth_bytes_.load(std::memory_order_relaxed);
  if (may_grow_.load(std::memory_order_relaxed) != may_grow) {
    may_grow_.store(may_grow, std::memory_order_relaxed);
  }
  // While the frames grow, a step frees more than this.
  const uint32_t most = may_grow ? step_frames_ / kAheadFraction : kMaxReserve;
  const uint32_t reserve = std::min(count / kReserveFraction, most);
  const uint32_t ahead =
      may_grow ? std::min(count / kAheadFraction, kMaxAheadSteps * step_frames_) : 0;
  if (ahead_.load(std::memory_order_relaxed) != ahead) {
    ahead_.store(ahead, std::memory_order_relaxed);
  }
  if (reserve_.load(std::memory_order_relaxed) != reserve) {
    reserve_.store(reserve, std::memory_order_relaxed);
  }
}

bool FrameCache::Grow() noexcept {
  // If another thread is growing or shrinking the frames, this one does nothing.
  const std::unique_lock lock(limit_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  // Relaxed: under limit_mutex_.
  const uint64_t booked = booked_bytes_.load(std::memory_order_relaxed);
  const uint64_t limit = std::min(share_->LimitBytes(), BytesInUse(frame_count()));
  const uint64_t more = limit > booked ? (limit - booked) / frame_bytes_ : 0;
  const uint64_t bytes = std::min<uint64_t>(more, step_frames_) * frame_bytes_;
  bool grows = bytes >= least_growth_bytes_.load(std::memory_order_relaxed) && share_->Book(bytes);
  if (grows && !pool_->RaiseLimit(CountFor(booked + bytes))) {
    share_->Cancel(bytes);
    grows = false;
  }
  if (grows) {
    booked_bytes_.store(booked + bytes, std::memory_order_relaxed);
    least_growth_bytes_.store(frame_bytes_, std::memory_order_relaxed);
  }
  UpdateHints();
  return grows;
}

void FrameCache::ShrinkTo(uint64_t bytes) noexcept {
  // In any case: what another thread books just now may have to be given back.
  const std::lock_guard lock(limit_mutex_);
  // Relaxed, all: under limit_mutex_.
  const uint64_t booked = booked_bytes_.load(std::memory_order_relaxed);
  if (booked <= bytes) return;
  has_shrunk_.store(true, std::memory_order_relaxed);
  const uint64_t fixed_bytes = FixedBytes(pool_->frame_count());
  const uint64_t steps = CountFor(bytes) / step_frames_;
  booked_bytes_.store(fixed_bytes + steps * step_frames_ * frame_bytes_, std::memory_order_relaxed);
  ApplyBooked();
  // Frames that could not be emptied stay booked.
  const uint64_t used_bytes = fixed_bytes + uint64_t{pool_->touched_count()} * frame_bytes_;
  const uint64_t left =
      std::clamp(used_bytes, booked_bytes_.load(std::memory_order_relaxed), booked);
  ENGINE_RACE_ASSERT(left >= fixed_bytes && left <= booked);
  booked_bytes_.store(left, std::memory_order_relaxed);
  // A whole step, or the memory of all missing frames if that is less.
  const uint64_t missing = BytesInUse(frame_count()) - left;
  least_growth_bytes_.store(std::min(step_frames_ * frame_bytes_, std::max(missing, frame_bytes_)),
                            std::memory_order_relaxed);
  if (left < booked) share_->Cancel(booked - left);
}

uint64_t FrameCache::UseCount() const noexcept {
  const EpochManager::Counts counts = epochs_.TakeCounts();
  // With the epochs of another cache, that one has the blocks, and this one alone has the values.
  const uint64_t block_hits = own_epochs_ == nullptr ? 0 : counts.block_hits;
  const uint64_t value_hits = pool_->HasOwner(FrameKind::kValue) ? counts.value_hits : 0;
  // Acquire: the admissions that are no uses are among those counted below.
  const uint64_t uncounted_count = uncounted_admissions_.load(std::memory_order_acquire);
  return value_hits + block_hits + admission_count(FrameKind::kBlock) +
         admission_count(FrameKind::kValue) - uncounted_count;
}

// A cheap test that refuses most offers. bar_ is out of date when nothing has been admitted for
// long, so one in a few offers passes in any case.
bool FrameCache::IsWorthATry(uint32_t frequency) noexcept {
  // Relaxed, both: hints.
  if (frequency > bar_.load(std::memory_order_relaxed)) return true;
  return refusals_.fetch_add(1, std::memory_order_relaxed) % kRefusals == 0;
}

// The frequency that content must exceed to get the victim's frame.
uint32_t FrameCache::BarOf(uint32_t victim) const noexcept {
  const FrameInfo& own = info(victim);
  const uint32_t worth = pool_->IsOrphan(victim) ? 0 : sketch_.Estimate(own.tag);
  return own.is_stopgap && worth < kLeastFrequency ? 0 : worth + kMargin;
}

uint32_t FrameCache::TakeFor(FrameKind kind, uint64_t id, uint32_t frequency) noexcept {
  const bool is_stopgap = kind == FrameKind::kValue && frequency < kLeastFrequency;
  const bool counts_as_use = frequency != 0;
  const bool grows = counts_as_use ? may_grow() : MayGrowUncounted();
  if (is_stopgap && is_full() && !grows) return kNoFrame;
  // Relaxed: a hint.
  if (counts_as_use && has_shrunk_.load(std::memory_order_relaxed)) {
    has_shrunk_.store(false, std::memory_order_relaxed);
  }
  // More memory is of no use if no more frames may be of the kind.
  if (share_ != nullptr && RunsShort() && (counts_as_use || MayGrowUncounted()) &&
      pool_->MayHaveMore(kind) && !Grow() && is_full() && !is_stopgap &&
      // Relaxed: a hint.
      share_->Want(least_growth_bytes_.load(std::memory_order_relaxed))) {
    Grow();
  }
  const bool had_room = HasRoomFor(kind);
  if (!had_room && (is_stopgap || !IsWorthATry(frequency))) return kNoFrame;
  const uint32_t frame = pool_->TakeInExchange(
      kind, reserve(), [&](uint32_t victim) { return !is_stopgap && BarOf(victim) < frequency; });
  if (!had_room) {
    pool_->LookAtVictim([&](uint32_t victim) {
      // Relaxed: a hint.
      bar_.store(BarOf(victim), std::memory_order_relaxed);
    });
  }
  if (frame == kNoFrame) return kNoFrame;
  ENGINE_RACE_ASSERT(frame < frame_count());
  FrameInfo& own = info(frame);
  ENGINE_RACE_ASSERT(own.kind == kind && own.children == nullptr);
  own.is_stopgap = is_stopgap;
  own.parent = nullptr;
  own.place = 0;
  own.parent_frame = kNoFrame;
  own.tag = id;
  return frame;
}

bool FrameCache::Install(uint32_t frame, FunctionRef<bool()> swizzle, bool counts_as_use) {
  const auto kind = static_cast<size_t>(info(frame).kind);
  if (!pool_->TryInstall(frame, swizzle)) return false;
  // Relaxed: a statistic. Release pairs with the acquire in UseCount, which is never below 0.
  admissions_[kind].fetch_add(1, std::memory_order_relaxed);
  if (!counts_as_use) uncounted_admissions_.fetch_add(1, std::memory_order_release);
  return true;
}

uint64_t FrameCache::memory_bytes() const {
  // The arrays of words and of the sketch are counted whole.
  return sizeof(*this) + EpochManager::MemoryBytes() + sketch_.memory_bytes() +
         frame_count() * sizeof(std::atomic<uint32_t>) + pool_->memory_bytes();
}

uint64_t FrameCache::limit_bytes() const {
  // Relaxed: a statistic.
  return share_ != nullptr ? share_->LimitBytes() : booked_bytes_.load(std::memory_order_relaxed);
}

}  // namespace engine_race::l1
