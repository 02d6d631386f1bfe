// The versions that views hold lie in one array under one mutex, in ascending order, each with the
// number of its views. Taking a view appends a version: a new one is above all others. The other
// calls find theirs by a binary search. A version that no view holds any more stays in the array
// until such versions are more than the others. So the work of a call does not grow with the number
// of views, but for the search. Only Live() copies all versions, once after each change of them.
// Writers of records read one cache line, which has two counters.
//
// No thread that drops superseded records may miss a live view. Take raises the number of live
// views, then raises the version, then appends it, all under the mutex. So a writer that loads
// version `e` finds every view of a version below `e` counted. Live() waits for the mutex and finds
// these views too. Views of `e` and later do not matter to the writer, because they show the newest
// record that is stamped with `e` or less. A view moves from one version to another under the mutex
// too.
//
// A release or a move of the oldest view requests a sweep of the superseded records that are kept
// for views. A writer that keeps some sets a flag under the mutex, then looks whether the oldest
// view is gone. A view that is released leaves its version under the mutex, and looks at the flag.
// So one of the two threads sees the other's change.
//
// A batch writes records of several buckets. All of them get one stamp: between BeginBatch and
// EndBatch no view is taken, so the version stays as it is. The number of batches under way is in
// the word of the version, so taking a view costs no more when there are none.
//
// In a forked child Release just forgets the view, because another thread may have held a lock of
// the registry at the fork.
#include "engine_race/index/views.h"

#include <time.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// How often a batch lets waiting views go first.
constexpr int kPoliteYields = 64;

uint64_t NowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace

Status ViewRegistry::Create(ViewRegistry** registry) {
  auto* const made = new (std::nothrow) ViewRegistry;
  if (made == nullptr || !ForkMark::Make(&made->fork_mark_).ok() || !made->ReserveOne()) {
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
  {
    const std::lock_guard lock(sweeper_mutex_);
    sweeper_ = nullptr;
  }
  // Release: pairs with the acquire of closed() and of Iterator::Valid.
  fork_mark_.flag().store(false, std::memory_order_release);
  // Acquire and release: the thread that finds no view left deletes it, after all others are done.
  if (live_.fetch_and(~kOpen, std::memory_order_acq_rel) == kOpen) delete this;
}

bool ViewRegistry::ReserveOne() noexcept {
  // Relaxed: it grows under the mutex alone. Compact leaves no more places than these.
  const size_t view_count = live_.load(std::memory_order_relaxed) & ~kOpen;
  const size_t wanted = 2 * (view_count + 1) + kSlack;
  if (wanted <= held_.capacity()) return true;
  visited_count_ += held_.size();
  try {
    held_.reserve(std::max(wanted, 2 * held_.capacity()));
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

Status ViewRegistry::Take(View* view) {
  std::unique_lock lock(mutex_);
  if (!ReserveOne()) return Status::OutOfMemory("index: no memory for a view");
  // Release: with the change of version_ in NextVersion, pairs with the acquires of StampWrite; see
  // the header.
  live_.fetch_add(1, std::memory_order_acq_rel);
  const uint64_t version = NextVersion(&lock);
  Append(version);
  *view = {this, version};
  return Status::Ok();
}

uint64_t ViewRegistry::NextVersion(std::unique_lock<std::mutex>* lock) noexcept {
  // Relaxed: the exchange below counts.
  uint64_t word = version_.load(std::memory_order_relaxed);
  while (true) {
    if (word < kBatch) {
      // Sequentially consistent: before a reader at this view looks for published runs. Acquire:
      // pairs with EndBatch, so a view shows the batches that have ended.
      if (version_.compare_exchange_weak(word, word + 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed)) {
        return word;
      }
      continue;
    }
    // The thread of a batch may look at the views meanwhile.
    lock->unlock();
    // Relaxed, both: batches only take it as a request to be polite.
    waiting_.fetch_add(1, std::memory_order_relaxed);
    version_.wait(word, std::memory_order_relaxed);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    lock->lock();
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
  const std::lock_guard lock(mutex_);
  if (!ReserveOne()) return Status::OutOfMemory("index: no memory for a view");
  // Relaxed: the view that holds the version is counted, and the mutex orders the rest.
  live_.fetch_add(1, std::memory_order_relaxed);
  Join(version);
  *view = {this, version};
  return Status::Ok();
}

void ViewRegistry::Renew(View* view) noexcept {
  ViewRegistry& registry = *view->registry;
  bool sweep_is_due = false;
  {
    std::unique_lock lock(registry.mutex_);
    const uint64_t version = registry.NextVersion(&lock);
    sweep_is_due = registry.Leave(view->version);
    registry.Append(version);
    view->version = version;
  }
  if (sweep_is_due) registry.RequestSweep();
}

void ViewRegistry::RenewAt(uint64_t version, View* view) noexcept {
  if (version == view->version) return;
  ViewRegistry& registry = *view->registry;
  bool sweep_is_due = false;
  {
    const std::lock_guard lock(registry.mutex_);
    registry.Join(version);
    sweep_is_due = registry.Leave(view->version);
    view->version = version;
  }
  if (sweep_is_due) registry.RequestSweep();
}

void ViewRegistry::Release(View* view) noexcept {
  if (view->registry == nullptr) return;
  ViewRegistry* const registry = view->registry;
  if (registry->is_inherited()) [[unlikely]] {
    *view = View();
    return;
  }
  bool sweep_is_due = false;
  {
    const std::lock_guard lock(registry->mutex_);
    sweep_is_due = registry->Leave(view->version);
  }
  if (sweep_is_due) registry->RequestSweep();
  *view = View();
  // The registry lives at least as long as this view is counted, and may not be touched afterwards.
  // Acquire and release: as in Close.
  const uint64_t before = registry->live_.fetch_sub(1, std::memory_order_acq_rel);
  ENGINE_RACE_ASSERT((before & ~kOpen) != 0);
  if (before == 1) delete registry;
}

size_t ViewRegistry::LowerBound(uint64_t version) const noexcept {
  const auto is_below = [this](const Held& held, uint64_t wanted) {
    ++visited_count_;
    return held.version < wanted;
  };
  return static_cast<size_t>(std::lower_bound(held_.begin() + static_cast<ptrdiff_t>(first_),
                                              held_.end(), version, is_below) -
                             held_.begin());
}

// Most views that end are the newest one or the oldest one.
size_t ViewRegistry::PlaceOf(uint64_t version) const noexcept {
  ENGINE_RACE_ASSERT(first_ < held_.size());
  if (held_.back().version == version) return held_.size() - 1;
  const size_t place = held_[first_].version == version ? first_ : LowerBound(version);
  ENGINE_RACE_ASSERT(place < held_.size() && held_[place].version == version);
  ENGINE_RACE_ASSERT(held_[place].view_count > 0);
  return place;
}

// Each place that is passed on the way points further afterwards, so that it is passed less often.
size_t ViewRegistry::NextHeld(size_t place) const noexcept {
  while (place < held_.size() && held_[place].view_count == 0) {
    ++visited_count_;
    size_t& next = held_[place].next;
    if (next < held_.size() && held_[next].view_count == 0) next = held_[next].next;
    place = next;
  }
  return place;
}

void ViewRegistry::Append(uint64_t version) noexcept {
  ENGINE_RACE_ASSERT(held_.size() < held_.capacity());
  ENGINE_RACE_ASSERT(held_.empty() || held_.back().version < version);
  held_.push_back({version, NowMs(), 1, 0});
  is_copy_current_ = false;
}

void ViewRegistry::Join(uint64_t version) noexcept { ++held_[PlaceOf(version)].view_count; }

bool ViewRegistry::Leave(uint64_t version) noexcept {
  const size_t place = PlaceOf(version);
  Held& held = held_[place];
  if (--held.view_count > 0) return false;
  held.next = place + 1;
  is_copy_current_ = false;
  ++gone_count_;
  for (; !held_.empty() && held_.back().view_count == 0; --gone_count_) {
    ++visited_count_;
    held_.pop_back();
  }
  const bool was_oldest = place == first_;
  first_ = NextHeld(std::min(first_, held_.size()));
  if (gone_count_ > held_.size() - gone_count_ + kSlack) Compact();
  return was_oldest && is_pinned_;
}

void ViewRegistry::Compact() noexcept {
  visited_count_ += held_.size();
  std::erase_if(held_, [](const Held& held) { return held.view_count == 0; });
  first_ = gone_count_ = 0;
}

void ViewRegistry::RequestSweep() noexcept {
  const std::lock_guard lock(sweeper_mutex_);
  if (sweeper_ != nullptr) sweeper_->RequestSweep();
}

LiveVersions ViewRegistry::Live() const noexcept {
  // Freed after the mutex is released.
  std::shared_ptr<const LiveVersions::Versions> old;
  const std::lock_guard lock(mutex_);
  if (is_copy_current_) return LiveVersions(copy_);
  old = std::exchange(copy_, nullptr);
  try {
    if (first_ < held_.size()) {
      auto versions = std::make_shared<LiveVersions::Versions>();
      versions->reserve(held_.size() - gone_count_);
      for (const Held& held : held_) {
        if (held.view_count > 0) versions->push_back(held.version);
      }
      visited_count_ += held_.size();
      copy_ = std::move(versions);
    }
    is_copy_current_ = true;
    return LiveVersions(copy_);
  } catch (const std::bad_alloc&) {
    // Without memory for the copy any view from the oldest one on counts as live.
    LiveVersions live;
    live.AddAllFrom(held_[first_].version);
    return live;
  }
}

LiveVersions ViewRegistry::LiveFromNowOn() const noexcept {
  // Acquire: pairs with the changes in NextVersion, so that Live() finds all views of lower
  // versions. It may miss views of this version and of later ones, which are added below.
  const uint64_t version = version_.load(std::memory_order_acquire) & kVersionMask;
  LiveVersions live = Live();
  live.AddAllFrom(version);
  return live;
}

bool ViewRegistry::AnyIn(uint64_t first, uint64_t end) const noexcept {
  const std::lock_guard lock(mutex_);
  const size_t place = NextHeld(LowerBound(first));
  return place < held_.size() && held_[place].version < end;
}

uint64_t ViewRegistry::Oldest() const noexcept {
  const std::lock_guard lock(mutex_);
  return first_ < held_.size() ? held_[first_].version : kLatestVersion;
}

uint64_t ViewRegistry::visited_count() const {
  const std::lock_guard lock(mutex_);
  return visited_count_;
}

void ViewRegistry::NotePinned() noexcept {
  const std::lock_guard lock(mutex_);
  is_pinned_ = true;
}

void ViewRegistry::NoteUnpinned() noexcept {
  const std::lock_guard lock(mutex_);
  is_pinned_ = false;
}

ViewRegistry::Census ViewRegistry::TakeCensus() const {
  Census census;
  const std::lock_guard lock(mutex_);
  // Relaxed: a statistic.
  census.count = live_.load(std::memory_order_relaxed) & ~kOpen;
  if (first_ == held_.size()) return census;
  const Held& oldest = held_[first_];
  census.oldest_version = oldest.version;
  const uint64_t now_ms = NowMs();
  if (now_ms > oldest.taken_ms) census.oldest_age_ms = now_ms - oldest.taken_ms;
  return census;
}

}  // namespace engine_race
