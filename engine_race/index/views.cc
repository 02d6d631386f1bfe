#include "engine_race/index/views.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// In a slot's state: the view is about to be one of this epoch or of a later one.
constexpr uint64_t kPending = uint64_t{1} << 63;
// A claim that has met so many slots in use asks for more of them.
constexpr size_t kMaxProbes = 16;
// So often a census begins anew.
constexpr int kCensusRounds = 8;

// Where this thread looks for a slot first: where it last gave one back, or behind the one it last
// took. Any number does, of whichever registry.
constinit thread_local size_t slot_hint = 0;

uint64_t NowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace

struct alignas(64) ViewRegistry::Slot {
  // 0 when free, else the view's epoch, perhaps with kPending.
  std::atomic<uint64_t> state{0};
  std::atomic<uint64_t> taken_ms{0};
  size_t index = 0;
};

ViewRegistry::ViewRegistry() = default;
ViewRegistry::~ViewRegistry() = default;

Status ViewRegistry::Create(ViewRegistry** registry) {
  auto* const made = new (std::nothrow) ViewRegistry;
  if (made == nullptr || !made->Grow(0)) {
    delete made;
    return Status::OutOfMemory("index: no memory for a registry of views");
  }
  *registry = made;
  return Status::Ok();
}

void ViewRegistry::Close() noexcept {
  Sweeper* sweeper = nullptr;
  {
    const std::lock_guard lock(sweeper_mutex_);
    sweeper = std::exchange(sweeper_, nullptr);
  }
  if (sweeper != nullptr) sweeper->Stop();
  // Release: pairs with the acquire of closed().
  closed_.store(true, std::memory_order_release);
  // Acquire and release: whoever finds nobody else left destroys it, behind all that others did.
  const uint64_t before = live_.fetch_and(~(kOpen | kPinned), std::memory_order_acq_rel);
  if ((before & kCountMask) == 0) delete this;
}

ViewRegistry::Slot* ViewRegistry::SlotAt(size_t index) const {
  const size_t chunk = index < kFirstSlots ? 0 : std::bit_width(index / kFirstSlots);
  const size_t before = chunk == 0 ? 0 : kFirstSlots << (chunk - 1);
  // Acquire: pairs with the release in Grow.
  return chunks_[chunk].load(std::memory_order_acquire) + (index - before);
}

bool ViewRegistry::Grow(size_t slot_count) noexcept {
  const std::lock_guard lock(grow_mutex_);
  // Relaxed: changes come under the mutex.
  if (slot_count_.load(std::memory_order_relaxed) != slot_count) return true;
  const size_t chunk = slot_count == 0 ? 0 : std::bit_width(slot_count / kFirstSlots);
  if (chunk == kChunkCount) return false;
  const size_t added = slot_count == 0 ? kFirstSlots : slot_count;
  owned_chunks_[chunk].reset(new (std::nothrow) Slot[added]);
  Slot* const slots = owned_chunks_[chunk].get();
  if (slots == nullptr) return false;
  for (size_t i = 0; i < added; ++i) slots[i].index = slot_count + i;
  // Release, both: pair with the acquires of SlotAt, Claim and Look.
  chunks_[chunk].store(slots, std::memory_order_release);
  slot_count_.store(slot_count + added, std::memory_order_release);
  return true;
}

ViewRegistry::Slot* ViewRegistry::Claim(uint64_t state) noexcept {
  bool may_grow = true;
  while (true) {
    // Acquire: pairs with the release in Grow.
    const size_t count = slot_count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      Slot* const slot = SlotAt((slot_hint + i) & (count - 1));
      uint64_t free = 0;
      // Relaxed: only the exchange counts. Release: pairs with the acquire of a census.
      if (slot->state.load(std::memory_order_relaxed) == 0 &&
          slot->state.compare_exchange_strong(free, state, std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
        slot_hint = slot->index + 1;
        return slot;
      }
      if (i >= kMaxProbes && may_grow && IsCrowded(count)) break;
    }
    if (!may_grow) return nullptr;
    may_grow = Grow(count);
    if (may_grow) slot_hint = count;
  }
}

bool ViewRegistry::IsCrowded(size_t slot_count) const {
  // Relaxed: a hint.
  return (live_.load(std::memory_order_relaxed) & kCountMask) > slot_count / 2;
}

Status ViewRegistry::Take(View* view) {
  // Relaxed: the epoch only grows, and moves on below.
  Slot* const slot = Claim(kPending | epoch_.load(std::memory_order_relaxed));
  if (slot == nullptr) return Status::OutOfMemory("index: no memory for a view");
  // Relaxed: a statistic.
  slot->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Release, all three: pair with the acquires of StampWrite and Look; see the header.
  live_.fetch_add(1, std::memory_order_acq_rel);
  // Seq_cst: before the load of unchanged_ by whoever reads at this view.
  const uint64_t epoch = epoch_.fetch_add(1, std::memory_order_seq_cst);
  slot->state.store(epoch, std::memory_order_release);
  *view = {this, slot, epoch};
  return Status::Ok();
}

Status ViewRegistry::TakeAt(uint64_t epoch, View* view) {
  Slot* const slot = Claim(epoch);
  if (slot == nullptr) return Status::OutOfMemory("index: no memory for a view");
  // Relaxed: a statistic.
  slot->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Release: behind the slot; pairs with the acquires of Look.
  live_.fetch_add(kCopy + 1, std::memory_order_acq_rel);
  *view = {this, slot, epoch};
  return Status::Ok();
}

void ViewRegistry::Renew(View* view) noexcept {
  ViewRegistry& registry = *view->registry;
  const uint64_t before = view->epoch;
  // Relaxed: as in Release.
  ENGINE_RACE_ASSERT(view->slot->state.load(std::memory_order_relaxed) == before);
  // Release, all three: pair with the acquires of StampWrite and Look; see the header.
  view->slot->state.store(kPending | before, std::memory_order_release);
  // Seq_cst: as in Take.
  view->epoch = registry.epoch_.fetch_add(1, std::memory_order_seq_cst);
  view->slot->state.store(view->epoch, std::memory_order_release);
  // Relaxed: a statistic.
  view->slot->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Acquire: pairs with NotePinned, which changes the epoch's word too, so that this load sees the
  // flag unless that call came first and its caller sees the slot moved on.
  if ((registry.live_.load(std::memory_order_acquire) & kPinned) != 0) registry.MovedOn(before);
}

void ViewRegistry::RenewAt(uint64_t epoch, View* view) noexcept {
  const uint64_t before = view->epoch;
  if (epoch == before) return;
  // Release: pairs with the acquire of Look.
  view->slot->state.store(epoch, std::memory_order_release);
  view->slot->taken_ms.store(NowMs(), std::memory_order_relaxed);  // a statistic
  view->epoch = epoch;
  // Release: behind the slot; pairs with the acquires of Look.
  const uint64_t live = view->registry->live_.fetch_add(kCopy, std::memory_order_acq_rel);
  if ((live & kPinned) != 0) view->registry->MovedOn(before);
}

void ViewRegistry::Release(View* view) noexcept {
  if (view->registry == nullptr) return;
  ViewRegistry* const registry = view->registry;
  slot_hint = view->slot->index;
  // Release: pairs with the acquire of Look. From here on the slot may be another's.
  // Relaxed: while the view is live, only its holder changes the slot.
  ENGINE_RACE_ASSERT(view->slot->state.load(std::memory_order_relaxed) == view->epoch);
  view->slot->state.store(0, std::memory_order_release);
  // Relaxed: the exchange does the ordering.
  uint64_t live = registry->live_.load(std::memory_order_relaxed);
  bool told = false;
  do {
    // While this view is counted, the registry stays; once it is not, nothing may be looked at.
    ENGINE_RACE_ASSERT((live & kCountMask) != 0);
    if ((live & kPinned) != 0 && !told) {
      registry->MovedOn(view->epoch);
      told = true;
      live = registry->live_.load(std::memory_order_relaxed);  // as above
    }
    // Acquire and release: as in Close.
  } while (!registry->live_.compare_exchange_weak(live, live - 1, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed));
  if ((live & (kOpen | kCountMask)) == 1) delete registry;
  *view = View();
}

// Calls begin(), then seen() with the state of each slot in use, and does so again until no view
// was copied meanwhile; false when that went on for too long. Nothing is seen when no view is live.
template <typename BeginFn, typename SeenFn>
bool ViewRegistry::Look(const BeginFn& begin, const SeenFn& seen) const {
  // Acquire, here and below: pair with TakeAt and RenewAt.
  uint64_t before = live_.load(std::memory_order_acquire);
  for (int round = 0; round < kCensusRounds; ++round) {
    begin();
    if ((before & kCountMask) == 0) return true;
    // Acquire: pairs with the release in Grow.
    const size_t count = slot_count_.load(std::memory_order_acquire);
    for (size_t first = 0; first < count; first += std::max(first, kFirstSlots)) {
      const Slot* const slots = SlotAt(first);
      for (size_t i = 0; i < std::max(first, kFirstSlots); ++i) {
        // Acquire: pairs with the releases of all that change a slot.
        const uint64_t state = slots[i].state.load(std::memory_order_acquire);
        if (state != 0) seen(state);
      }
    }
    const uint64_t after = live_.load(std::memory_order_acquire);
    if (before >> kCopyShift == after >> kCopyShift) return true;
    before = after;
  }
  return false;
}

LiveEpochs ViewRegistry::Live() const noexcept {
  LiveEpochs live;
  const auto add = [&live](uint64_t state) {
    if ((state & kPending) != 0) {
      live.AddAllFrom(state & ~kPending);
    } else {
      live.Add(state);
    }
  };
  if (!Look([&live] { live.Clear(); }, add)) live.AddAllFrom(0);
  live.Sort();
  return live;
}

LiveEpochs ViewRegistry::LiveFromNowOn() const noexcept {
  // Acquire: pairs with the changes in Take and Renew, so that the census finds all views of lower
  // epochs. Views of this one and of later ones may be missed by it.
  const uint64_t epoch = epoch_.load(std::memory_order_acquire);
  LiveEpochs live = Live();
  live.AddAllFrom(epoch);
  return live;
}

uint64_t ViewRegistry::Oldest() const noexcept {
  uint64_t oldest = kLatestEpoch;
  const auto add = [&oldest](uint64_t state) { oldest = std::min(oldest, state & ~kPending); };
  return Look([&oldest] { oldest = kLatestEpoch; }, add) ? oldest : 0;
}

void ViewRegistry::NotePinned() noexcept {
  // Acquire and release, both: pair with Release and RenewAt, and with Renew.
  live_.fetch_or(kPinned, std::memory_order_acq_rel);
  epoch_.fetch_add(0, std::memory_order_acq_rel);
}

void ViewRegistry::NoteUnpinned() noexcept {
  const std::lock_guard lock(oldest_mutex_);
  // Who goes while nothing is pinned says nothing, so that the oldest is not known any more.
  // Release: pairs with the acquire in MovedOn.
  oldest_.store(kLatestEpoch, std::memory_order_release);
  live_.fetch_and(~kPinned, std::memory_order_acq_rel);
}

void ViewRegistry::MovedOn(uint64_t epoch) noexcept {
  // Acquire and release: who comes first here is seen by the other one's census.
  live_.fetch_add(0, std::memory_order_acq_rel);
  // Acquire: pairs with the release in OldestHasGone.
  if (epoch > oldest_.load(std::memory_order_acquire) || !OldestHasGone()) return;
  const std::lock_guard lock(sweeper_mutex_);
  if (sweeper_ != nullptr) sweeper_->RequestSweep();
}

// Finds out which view is the oldest, and answers whether it is another one than was known.
bool ViewRegistry::OldestHasGone() noexcept {
  const std::lock_guard lock(oldest_mutex_);
  const uint64_t known = oldest_.load(std::memory_order_relaxed);  // changes come under the mutex
  uint64_t oldest = Oldest();
  for (int round = 0; round < kCensusRounds; ++round) {
    // Release: pairs with the acquire in MovedOn.
    oldest_.store(oldest, std::memory_order_release);
    // As there: a view that goes now sees what was stored, or is seen gone.
    live_.fetch_add(0, std::memory_order_acq_rel);
    const uint64_t again = Oldest();
    // Where none is left, what was known may have been nothing.
    // A census that failed says nothing.
    if (again == oldest && again != 0) return oldest != known || oldest == kLatestEpoch;
    oldest = again;
  }
  oldest_.store(kLatestEpoch, std::memory_order_release);  // as above
  return true;
}

ViewRegistry::Census ViewRegistry::TakeCensus() const {
  Census census;
  // Relaxed: a statistic.
  census.count = live_.load(std::memory_order_relaxed) & kCountMask;
  // Acquire: pairs with the release in Grow.
  const size_t count = slot_count_.load(std::memory_order_acquire);
  uint64_t oldest_ms = 0;
  for (size_t i = 0; i < count; ++i) {
    const Slot& slot = *SlotAt(i);
    // Relaxed, here and below: a statistic.
    const uint64_t state = slot.state.load(std::memory_order_relaxed);
    if (state == 0 || (state & ~kPending) >= census.oldest_epoch) continue;
    census.oldest_epoch = state & ~kPending;
    oldest_ms = slot.taken_ms.load(std::memory_order_relaxed);
  }
  const uint64_t now_ms = NowMs();
  if (census.oldest_epoch != kLatestEpoch && now_ms > oldest_ms) {
    census.oldest_age_ms = now_ms - oldest_ms;
  }
  return census;
}

}  // namespace engine_race
