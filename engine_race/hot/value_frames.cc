#include "engine_race/hot/value_frames.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/entry_codec.h"

namespace engine_race {

namespace {

// The memory of a frame's description, beside its 4 KiB.
constexpr uint64_t kDescriptionBytes = sizeof(l1::FrameInfo) + sizeof(std::atomic<uint32_t>);
// The part of the frames that is kept free when all others are in use, and its upper limit.
constexpr uint32_t kReserveFraction = 32;
constexpr uint32_t kMaxReserve = 64;
// Reads from frames are noted when no more than this part of the frames is left.
constexpr uint32_t kScarceFraction = 8;

std::atomic<uint32_t>* SlotsIn(const Region& region) {
  return reinterpret_cast<std::atomic<uint32_t>*>(region.data());
}

}  // namespace

uint64_t ValueFrames::FixedBytes(uint32_t max_count) {
  return sizeof(ValueFrames) + l1::EpochManager::MemoryBytes() +
         FrequencySketch::MemoryBytes(max_count) + max_count * kDescriptionBytes;
}

uint64_t ValueFrames::BytesFor(uint32_t frame_count) {
  return FixedBytes(frame_count) + uint64_t{frame_count} * kValueBytes;
}

Status ValueFrames::Create(Index* index, uint64_t max_bytes, MemoryShare* share,
                           std::unique_ptr<ValueFrames>* frames, const Placement& placement) {
  frames->reset();
  // As many frames as fit together with their descriptions.
  constexpr uint64_t kBytesEach = kValueBytes + kDescriptionBytes + 64;
  auto count = static_cast<uint32_t>(std::min<uint64_t>(max_bytes / kBytesEach, Swip::kNumberMask));
  while (count > 0 && BytesFor(count) > max_bytes) --count;
  if (count == 0) return Status::Ok();
  return Guarded([&] {
    std::unique_ptr<ValueFrames> made(new ValueFrames(index, share));
    ENGINE_RACE_RETURN_IF_ERROR(made->sketch_.Allocate(count, placement));
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * sizeof(std::atomic<uint32_t>),
                                                 /*huge_pages=*/false, &made->slot_memory_,
                                                 placement));
    ENGINE_RACE_RETURN_IF_ERROR(l1::FramePool::Create(kValueBytes, count, &made->epochs_,
                                                      &made->owner_, &made->pool_, placement));
    if (share != nullptr && !share->Book(FixedBytes(count))) return Status::Ok();
    index->SetFrameSlots(SlotsIn(made->slot_memory_));
    made->SetLimit(share != nullptr ? FixedBytes(count) : max_bytes);
    *frames = std::move(made);
    return Status::Ok();
  });
}

// No word of the index leads to a frame afterwards.
ValueFrames::~ValueFrames() {
  if (pool_ != nullptr) pool_->SetLimit(0);
  // Relaxed: no other thread uses the frames.
  if (share_ != nullptr) share_->Cancel(booked_bytes_.load(std::memory_order_relaxed));
}

uint32_t ValueFrames::CountFor(uint64_t limit_bytes) const {
  const uint64_t fixed_bytes = FixedBytes(pool_->frame_count());
  if (limit_bytes < fixed_bytes) return 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>((limit_bytes - fixed_bytes) / kValueBytes, pool_->frame_count()));
}

void ValueFrames::SetLimit(uint64_t limit_bytes) noexcept {
  const std::lock_guard lock(limit_mutex_);
  booked_bytes_.store(limit_bytes, std::memory_order_relaxed);
  ApplyBooked();
}

void ValueFrames::ApplyBooked() noexcept {
  // The hints come first, so that no thread fills frames that are about to be evicted.
  UpdateHints();
  // Relaxed: under limit_mutex_.
  pool_->SetLimit(CountFor(booked_bytes_.load(std::memory_order_relaxed)));
}

// The hints assume that all memory that can be booked will be booked.
void ValueFrames::UpdateHints() noexcept {
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
  const uint32_t reserve =
      limit_count > count ? 0 : std::min(count / kReserveFraction, kMaxReserve);
  if (reserve_.load(std::memory_order_relaxed) != reserve) {
    reserve_.store(reserve, std::memory_order_relaxed);
  }
}

bool ValueFrames::Grow() noexcept {
  // If another thread is growing or shrinking the frames, this one does nothing.
  const std::unique_lock lock(limit_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  // Relaxed: under limit_mutex_.
  const uint64_t booked = booked_bytes_.load(std::memory_order_relaxed);
  const uint64_t limit = std::min(share_->LimitBytes(), BytesFor(pool_->frame_count()));
  const uint64_t more = limit > booked ? (limit - booked) / kValueBytes : 0;
  const uint64_t bytes = std::min(more, kFramesPerStep) * kValueBytes;
  const bool grows =
      bytes >= least_growth_bytes_.load(std::memory_order_relaxed) && share_->Book(bytes);
  if (grows) {
    booked_bytes_.store(booked + bytes, std::memory_order_relaxed);
    least_growth_bytes_.store(kValueBytes, std::memory_order_relaxed);
    ApplyBooked();
  } else {
    UpdateHints();
  }
  return grows;
}

void ValueFrames::ShrinkTo(uint64_t bytes) noexcept {
  const std::lock_guard lock(limit_mutex_);
  // Relaxed, all: under limit_mutex_.
  const uint64_t booked = booked_bytes_.load(std::memory_order_relaxed);
  if (booked <= bytes) return;
  const uint64_t fixed_bytes = FixedBytes(pool_->frame_count());
  const uint64_t steps = CountFor(bytes) / kFramesPerStep;
  booked_bytes_.store(fixed_bytes + steps * kFramesPerStep * kValueBytes,
                      std::memory_order_relaxed);
  ApplyBooked();
  // Frames that could not be emptied stay booked.
  const uint64_t used_bytes = fixed_bytes + uint64_t{pool_->touched_count()} * kValueBytes;
  const uint64_t left =
      std::clamp(used_bytes, booked_bytes_.load(std::memory_order_relaxed), booked);
  ENGINE_RACE_ASSERT(left >= fixed_bytes && left <= booked);
  booked_bytes_.store(left, std::memory_order_relaxed);
  // A whole step, or the memory of all missing frames if that is less.
  const uint64_t missing = BytesFor(pool_->frame_count()) - left;
  least_growth_bytes_.store(
      std::min(kFramesPerStep * kValueBytes, std::max<uint64_t>(missing, kValueBytes)),
      std::memory_order_relaxed);
  if (left < booked) share_->Cancel(booked - left);
}

uint64_t ValueFrames::UseCount() const noexcept {
  return epochs_.TakeCounts().hits + admission_count();
}

void ValueFrames::Offer(uint64_t key, ValueRef ref, const char* value) noexcept {
  // A value that is in a frame is not offered.
  ENGINE_RACE_ASSERT(!ref.hot() && !ref.tombstone());
  const uint32_t frequency = sketch_.Note(key);
  if (frequency < kLeastFrequency) return;
  // Relaxed: a hint.
  if (share_ != nullptr && is_full() && !Grow() &&
      share_->Want(least_growth_bytes_.load(std::memory_order_relaxed))) {
    Grow();
  }
  if (IsWorthATry(frequency)) Admit(key, ref, value, frequency);
}

// A cheap test that refuses most values. threshold_ is out of date when nothing has been admitted
// for long, so one in a few values passes in any case.
bool ValueFrames::IsWorthATry(uint32_t frequency) noexcept {
  // Relaxed, all: hints.
  if (!is_full() || frequency > threshold_.load(std::memory_order_relaxed) + kMargin) return true;
  return refusals_.fetch_add(1, std::memory_order_relaxed) % kRefusals == 0;
}

// How often the frame's value was read lately; 0 for an orphan.
uint32_t ValueFrames::WorthOf(uint32_t frame) const noexcept {
  ValueRef ref;
  return owner_.IsNewest(frame, &ref) ? sketch_.Estimate(pool_->info(frame).tag) : 0;
}

void ValueFrames::Admit(uint64_t key, ValueRef ref, const char* value,
                        uint32_t frequency) noexcept {
  const bool was_full = is_full();
  const uint32_t frame = pool_->TakeInExchange(
      reserve(), [&](uint32_t victim) { return WorthOf(victim) + kMargin < frequency; });
  if (was_full) {
    pool_->LookAtVictim([&](uint32_t victim) {
      // Relaxed: a hint.
      threshold_.store(WorthOf(victim), std::memory_order_relaxed);
    });
  }
  if (frame == l1::FramePool::kNoFrame) return;
  ENGINE_RACE_ASSERT(frame < pool_->frame_count());
  char* const copy = pool_->data(frame);
  std::memcpy(copy, value, kValueBytes);
  pool_->info(frame).tag = key;
  // Release: before the index leads to the frame. Pairs with the acquire in FrameSlots::NotedSlot.
  SlotsIn(slot_memory_)[frame].store(ref.slot(), std::memory_order_release);
  // The copy is verified even if reads are not, so that no damaged value gets into a frame. If the
  // record was superseded since the value was read, Swizzle sees that by the reference.
  const bool installed = ValueMatches(copy, ref.value_checksum()) &&
                         pool_->Install(frame, [&] { return index_.Swizzle(key, ref, frame); });
  if (!installed) return pool_->GiveBack(frame);
  admissions_.fetch_add(1, std::memory_order_relaxed);  // a statistic
}

uint64_t ValueFrames::memory_bytes() const {
  const uint32_t frame_count = pool_->frame_count();
  // The arrays of slots and of the sketch are counted whole.
  return sizeof(*this) + l1::EpochManager::MemoryBytes() + sketch_.memory_bytes() +
         frame_count * sizeof(std::atomic<uint32_t>) + pool_->memory_bytes();
}

ValueFrameStats ValueFrames::Stats() const {
  ValueFrameStats stats;
  const l1::EpochManager::Counts counts = epochs_.TakeCounts();
  stats.memory_bytes = memory_bytes();
  stats.limit_bytes =
      share_ != nullptr ? share_->LimitBytes() : booked_bytes_.load(std::memory_order_relaxed);
  stats.value_count = pool_->used_count();
  stats.hit_count = counts.hits;
  stats.miss_count = counts.misses;
  stats.admission_count = admission_count();
  stats.eviction_count = pool_->eviction_count();
  return stats;
}

bool ValueFrames::Owner::IsNewest(uint32_t frame, ValueRef* ref) const noexcept {
  const uint64_t key = frames_.pool_->info(frame).tag;
  const Status status = Guarded([&] { return frames_.index_.FindHot(key, ref); });
  return status.ok() && ref->hot() && ref->frame() == frame;
}

l1::FrameOwner::Cooled ValueFrames::Owner::Cool(uint32_t frame, l1::FrameInfo* info) noexcept {
  ValueRef ref;
  const bool cooled = IsNewest(frame, &ref) && frames_.index_.Cool(info->tag, frame);
  return cooled ? Cooled::kCooling : Cooled::kOrphaned;
}

bool ValueFrames::Owner::WasHeated(uint32_t frame, l1::FrameInfo* /*info*/) noexcept {
  ValueRef ref;
  return IsNewest(frame, &ref) && !ref.cooling();
}

bool ValueFrames::Owner::Unswizzle(uint32_t frame, l1::FrameInfo* info,
                                   bool only_cooling) noexcept {
  // An orphan's frame is free to be evicted.
  return frames_.index_.Unswizzle(info->tag, frame, only_cooling) != Index::Unswizzled::kHeated;
}

}  // namespace engine_race
