#include "engine_race/index/views.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <new>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// A bit of a registration's state: the view will be of this version or of a later one.
constexpr uint64_t kPending = uint64_t{1} << 63;
// A claim that has met so many registrations in use tries to add more of them.
constexpr size_t kMaxProbes = 16;
// How often a batch lets waiting views go first.
constexpr int kPoliteYields = 64;
// How often a census begins anew before it gives up.
constexpr int kCensusRounds = 8;

// Where this thread looks for a free registration first: the one it last released, or the one after
// that which it last took. Only a hint, so the threads of all registries share it.
constinit thread_local size_t free_hint = 0;

uint64_t NowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace

struct alignas(64) ViewRegistration {
  // 0 when free, else the version of the view, perhaps with kPending.
  std::atomic<uint64_t> state{0};
  std::atomic<uint64_t> taken_ms{0};
  size_t index = 0;
};

ViewRegistry::ViewRegistry() = default;
ViewRegistry::~ViewRegistry() = default;

Status ViewRegistry::Create(ViewRegistry** registry) {
  auto* const made = new (std::nothrow) ViewRegistry;
  if (made == nullptr || !ForkMark::Make(&made->fork_mark_).ok() || !made->Grow(0)) {
    delete made;
    return Status::OutOfMemory("index: no memory for a registry of views");
  }
  // Relaxed: whatever gives the registry to other threads orders it.
  made->fork_mark_.flag().store(true, std::memory_order_relaxed);
  *registry = made;
  return Status::Ok();
}

Status ViewRegistry::CheckUsable() const {
  ENGINE_RACE_RETURN_IF_ERROR(fork_mark_.CheckProcess());
  return closed() ? Status::InvalidArgument("the store of this iterator is closed") : Status::Ok();
}

void ViewRegistry::Close() noexcept {
  Sweeper* sweeper = nullptr;
  {
    const std::lock_guard lock(sweeper_mutex_);
    sweeper = std::exchange(sweeper_, nullptr);
  }
  if (sweeper != nullptr) sweeper->Stop();
  // Release: pairs with the acquire of closed() and of Iterator::Valid.
  fork_mark_.flag().store(false, std::memory_order_release);
  // Acquire and release: the thread that finds no view left deletes it, after all others are done.
  const uint64_t before = live_.fetch_and(~(kOpen | kPinned), std::memory_order_acq_rel);
  if ((before & kCountMask) == 0) delete this;
}

ViewRegistry::Registration* ViewRegistry::RegistrationAt(size_t index) const {
  const size_t array = index < kFirstCount ? 0 : std::bit_width(index / kFirstCount);
  const size_t before = array == 0 ? 0 : kFirstCount << (array - 1);
  // Acquire: pairs with the release in Grow.
  return arrays_[array].load(std::memory_order_acquire) + (index - before);
}

bool ViewRegistry::Grow(size_t count) noexcept {
  const std::lock_guard lock(grow_mutex_);
  // Relaxed: changes come under the mutex.
  if (registration_count_.load(std::memory_order_relaxed) != count) return true;
  const size_t array = count == 0 ? 0 : std::bit_width(count / kFirstCount);
  if (array == kArrayCount) return false;
  const size_t added = count == 0 ? kFirstCount : count;
  owned_arrays_[array].reset(new (std::nothrow) Registration[added]);
  Registration* const registrations = owned_arrays_[array].get();
  if (registrations == nullptr) return false;
  for (size_t i = 0; i < added; ++i) registrations[i].index = count + i;
  // Release, both: pair with the acquires of RegistrationAt, Claim and Look.
  arrays_[array].store(registrations, std::memory_order_release);
  registration_count_.store(count + added, std::memory_order_release);
  return true;
}

ViewRegistry::Registration* ViewRegistry::Claim(uint64_t state) noexcept {
  bool may_grow = true;
  while (true) {
    // Acquire: pairs with the release in Grow.
    const size_t count = registration_count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      Registration* const registration = RegistrationAt((free_hint + i) & (count - 1));
      uint64_t free = 0;
      // Relaxed: only the exchange counts. Release: pairs with the acquire of a census.
      if (registration->state.load(std::memory_order_relaxed) == 0 &&
          registration->state.compare_exchange_strong(free, state, std::memory_order_acq_rel,
                                                      std::memory_order_relaxed)) {
        free_hint = registration->index + 1;
        return registration;
      }
      if (i >= kMaxProbes && may_grow && IsCrowded(count)) break;
    }
    if (!may_grow) return nullptr;
    may_grow = Grow(count);
    if (may_grow) free_hint = count;
  }
}

bool ViewRegistry::IsCrowded(size_t count) const {
  // Relaxed: a hint.
  return (live_.load(std::memory_order_relaxed) & kCountMask) > count / 2;
}

Status ViewRegistry::Take(View* view) {
  // Relaxed: a lower bound of the version is enough, and the version only grows.
  Registration* const registration =
      Claim(kPending | (version_.load(std::memory_order_relaxed) & kVersionMask));
  if (registration == nullptr) return Status::OutOfMemory("index: no memory for a view");
  // Relaxed: a statistic.
  registration->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Release, all three: pair with the acquires of StampWrite and Look; see the header.
  live_.fetch_add(1, std::memory_order_acq_rel);
  // Sequentially consistent: before the load of unchanged_ by a reader at this view.
  const uint64_t version = NextVersion();
  registration->state.store(version, std::memory_order_release);
  *view = {this, registration, version};
  return Status::Ok();
}

uint64_t ViewRegistry::NextVersion() noexcept {
  // Relaxed: the exchange below counts.
  uint64_t word = version_.load(std::memory_order_relaxed);
  while (true) {
    if (word < kBatch) {
      // Sequentially consistent: as in Take. Acquire: pairs with EndBatch, so a view shows the
      // batches that have ended.
      if (version_.compare_exchange_weak(word, word + 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed)) {
        return word;
      }
      continue;
    }
    // Relaxed, both: batches only take it as a request to be polite.
    waiting_.fetch_add(1, std::memory_order_relaxed);
    version_.wait(word, std::memory_order_relaxed);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    word = version_.load(std::memory_order_relaxed);
  }
}

void ViewRegistry::BeginBatch() noexcept {
  // Batches that follow one another closely would keep views waiting for ever. Relaxed: a hint.
  for (int i = 0; i < kPoliteYields && waiting_.load(std::memory_order_relaxed) != 0; ++i) {
    std::this_thread::yield();
  }
  // Acquire: the records of the batch get the version of the last view or a later one.
  version_.fetch_add(kBatch, std::memory_order_acq_rel);
}

void ViewRegistry::EndBatch() noexcept {
  // Release: pairs with the exchange in NextVersion.
  const uint64_t before = version_.fetch_sub(kBatch, std::memory_order_acq_rel);
  ENGINE_RACE_ASSERT(before >= kBatch);
  if (before < 2 * kBatch) version_.notify_all();
}

Status ViewRegistry::TakeAt(uint64_t version, View* view) {
  Registration* const registration = Claim(version);
  if (registration == nullptr) return Status::OutOfMemory("index: no memory for a view");
  // Relaxed: a statistic.
  registration->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Release: behind the registration; pairs with the acquires of Look.
  live_.fetch_add(kCopy + 1, std::memory_order_acq_rel);
  *view = {this, registration, version};
  return Status::Ok();
}

void ViewRegistry::Renew(View* view) noexcept {
  ViewRegistry& registry = *view->registry;
  const uint64_t before = view->version;
  // Relaxed: as in Release.
  ENGINE_RACE_ASSERT(view->registration->state.load(std::memory_order_relaxed) == before);
  // Release, all three: pair with the acquires of StampWrite and Look; see the header.
  view->registration->state.store(kPending | before, std::memory_order_release);
  // Seq_cst: as in Take.
  view->version = registry.NextVersion();
  view->registration->state.store(view->version, std::memory_order_release);
  // Relaxed: a statistic.
  view->registration->taken_ms.store(NowMs(), std::memory_order_relaxed);
  // Acquire: pairs with NotePinned, which changes version_ too. Either this load sees the flag, or
  // the caller of NotePinned sees that this view has moved.
  if ((registry.live_.load(std::memory_order_acquire) & kPinned) != 0) registry.MovedOn(before);
}

void ViewRegistry::RenewAt(uint64_t version, View* view) noexcept {
  const uint64_t before = view->version;
  if (version == before) return;
  // Release: pairs with the acquire of Look.
  view->registration->state.store(version, std::memory_order_release);
  view->registration->taken_ms.store(NowMs(), std::memory_order_relaxed);  // a statistic
  view->version = version;
  // Release: behind the registration; pairs with the acquires of Look.
  const uint64_t live = view->registry->live_.fetch_add(kCopy, std::memory_order_acq_rel);
  if ((live & kPinned) != 0) view->registry->MovedOn(before);
}

void ViewRegistry::Release(View* view) noexcept {
  if (view->registry == nullptr) return;
  ViewRegistry* const registry = view->registry;
  if (registry->is_inherited()) [[unlikely]] {
    *view = View();
    return;
  }
  free_hint = view->registration->index;
  // Release: pairs with the acquire of Look. From here on the registration may be another's.
  // Relaxed: while the view is live, only its holder changes the registration.
  ENGINE_RACE_ASSERT(view->registration->state.load(std::memory_order_relaxed) == view->version);
  view->registration->state.store(0, std::memory_order_release);
  // Relaxed: the exchange does the ordering.
  uint64_t live = registry->live_.load(std::memory_order_relaxed);
  bool told = false;
  do {
    // The registry lives at least as long as this view is counted, and may not be touched
    // afterwards.
    ENGINE_RACE_ASSERT((live & kCountMask) != 0);
    if ((live & kPinned) != 0 && !told) {
      registry->MovedOn(view->version);
      told = true;
      live = registry->live_.load(std::memory_order_relaxed);  // as above
    }
    // Acquire and release: as in Close.
  } while (!registry->live_.compare_exchange_weak(live, live - 1, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed));
  if ((live & (kOpen | kCountMask)) == 1) delete registry;
  *view = View();
}

// Calls begin() and then seen() with the state of each registration in use. Begins anew if a view
// was copied meanwhile. False after too many rounds. Calls no seen() when no view is live.
template <typename BeginFn, typename SeenFn>
bool ViewRegistry::Look(const BeginFn& begin, const SeenFn& seen) const {
  // Acquire, here and below: pair with TakeAt and RenewAt.
  uint64_t before = live_.load(std::memory_order_acquire);
  for (int round = 0; round < kCensusRounds; ++round) {
    begin();
    if ((before & kCountMask) == 0) return true;
    // Acquire: pairs with the release in Grow.
    const size_t count = registration_count_.load(std::memory_order_acquire);
    for (size_t first = 0; first < count; first += std::max(first, kFirstCount)) {
      const Registration* const registrations = RegistrationAt(first);
      for (size_t i = 0; i < std::max(first, kFirstCount); ++i) {
        // Acquire: pairs with the releases of all that change a registration.
        const uint64_t state = registrations[i].state.load(std::memory_order_acquire);
        if (state != 0) seen(state);
      }
    }
    const uint64_t after = live_.load(std::memory_order_acquire);
    if (before >> kCopyShift == after >> kCopyShift) return true;
    before = after;
  }
  return false;
}

LiveVersions ViewRegistry::Live() const noexcept {
  LiveVersions live;
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

LiveVersions ViewRegistry::LiveFromNowOn() const noexcept {
  // Acquire: pairs with the changes in Take and Renew, so that Live() finds all views of lower
  // versions. It may miss views of this version and of later ones, which are added below.
  const uint64_t version = version_.load(std::memory_order_acquire) & kVersionMask;
  LiveVersions live = Live();
  live.AddAllFrom(version);
  return live;
}

uint64_t ViewRegistry::Oldest() const noexcept {
  uint64_t oldest = kLatestVersion;
  const auto add = [&oldest](uint64_t state) { oldest = std::min(oldest, state & ~kPending); };
  return Look([&oldest] { oldest = kLatestVersion; }, add) ? oldest : 0;
}

void ViewRegistry::NotePinned() noexcept {
  // Acquire and release, both: pair with Release and RenewAt, and with Renew.
  live_.fetch_or(kPinned, std::memory_order_acq_rel);
  version_.fetch_add(0, std::memory_order_acq_rel);
}

void ViewRegistry::NoteUnpinned() noexcept {
  const std::lock_guard lock(oldest_mutex_);
  // While nothing is pinned, a released view does not report, so the oldest one is unknown from
  // here on. Release: pairs with the acquire in MovedOn.
  oldest_.store(kLatestVersion, std::memory_order_release);
  live_.fetch_and(~kPinned, std::memory_order_acq_rel);
}

void ViewRegistry::MovedOn(uint64_t version) noexcept {
  // Acquire and release: of two threads that change this word, the later one's census sees what the
  // earlier one did.
  live_.fetch_add(0, std::memory_order_acq_rel);
  // Acquire: pairs with the release in OldestHasGone.
  if (version > oldest_.load(std::memory_order_acquire) || !OldestHasGone()) return;
  const std::lock_guard lock(sweeper_mutex_);
  if (sweeper_ != nullptr) sweeper_->RequestSweep();
}

// Finds the oldest view. True when it is another one than was known, or when it is not known.
bool ViewRegistry::OldestHasGone() noexcept {
  const std::lock_guard lock(oldest_mutex_);
  const uint64_t known = oldest_.load(std::memory_order_relaxed);  // changes come under the mutex
  uint64_t oldest = Oldest();
  for (int round = 0; round < kCensusRounds; ++round) {
    // Release: pairs with the acquire in MovedOn.
    oldest_.store(oldest, std::memory_order_release);
    // Acquire and release: a view that is released now either sees the store above or is seen as
    // gone.
    live_.fetch_add(0, std::memory_order_acq_rel);
    const uint64_t again = Oldest();
    // 0: the census failed and says nothing. kLatestVersion: no view is left, and `known` may have
    // said so before, so a sweep is due in any case.
    if (again == oldest && again != 0) return oldest != known || oldest == kLatestVersion;
    oldest = again;
  }
  oldest_.store(kLatestVersion, std::memory_order_release);  // as above
  return true;
}

ViewRegistry::Census ViewRegistry::TakeCensus() const {
  Census census;
  // Relaxed: a statistic.
  census.count = live_.load(std::memory_order_relaxed) & kCountMask;
  // Acquire: pairs with the release in Grow.
  const size_t count = registration_count_.load(std::memory_order_acquire);
  uint64_t oldest_ms = 0;
  for (size_t i = 0; i < count; ++i) {
    const Registration& registration = *RegistrationAt(i);
    // Relaxed, here and below: a statistic.
    const uint64_t state = registration.state.load(std::memory_order_relaxed);
    if (state == 0 || (state & ~kPending) >= census.oldest_version) continue;
    census.oldest_version = state & ~kPending;
    oldest_ms = registration.taken_ms.load(std::memory_order_relaxed);
  }
  const uint64_t now_ms = NowMs();
  if (census.oldest_version != kLatestVersion && now_ms > oldest_ms) {
    census.oldest_age_ms = now_ms - oldest_ms;
  }
  return census;
}

}  // namespace engine_race
