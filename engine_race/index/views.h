// Versions of the store's state, and the registry of the views that pin them.
//
// A counter of versions grows with each view that is taken. A writer stamps its record with the
// version that it finds under the lock of its bucket's index. A view of version `s` shows every
// record that is stamped with `s` or less. So it shows all that was acknowledged before the view
// was taken, and nothing that was begun after. Of a bucket that is written to meanwhile it shows
// one state, whenever it is looked at.
//
// Taking or releasing a view costs a few atomic operations, on the view's own registration and on
// one shared cache line. The number of views does not matter. Writers read that cache line and
// nothing else.
//
// No thread that drops superseded records may miss a live view. The order of the operations sees to
// that:
//
// - Take marks the registration as pending, then raises the count of live views, then raises the
//   version, then stores the version in the registration. All but the last are atomic
//   read-modify-write operations that no later operation passes. So a writer that loads version `e`
//   happens after every Take of a version below `e`. It finds that view counted. It finds the
//   registration filled or pending. A pending registration counts as every version from its lower
//   bound on. Views of `e` and later do not matter to the writer, because they show the newest
//   record that is stamped with `e` or less.
// - Release empties the registration before it lowers the count.
// - TakeAt and RenewAt copy a version that another view pins until they are done. They fill their
//   registration and then raise the number of copies, which is in the same word as the count. A
//   census may look at the copy's registration too early and at the other view's too late. Then the
//   number of copies has changed, and the census begins anew. After some rounds it answers that any
//   view may be live.
// - Renew does what Take does, in the registration that the view already has.
//
// A release or a move of the oldest view requests a sweep of the superseded records that are kept
// for views. A writer that keeps some sets a flag in the word of the count, then looks whether the
// oldest view is gone. A view that is released empties its registration, then looks at the flag.
// Both operations change the same word, so one of the two threads sees the other's change.
//
// A batch writes records of several buckets. All of them get one stamp: between BeginBatch and
// EndBatch no view is taken, so the version stays as it is. The number of batches under way is in
// the word of the version, so taking a view costs no more when there are none.
//
// The registry outlives the store while views are left. Close says that the store is gone, and the
// last view then deletes the registry.
//
// A registry belongs to the process that made it. A forked child may only release its views.
// Release then just forgets the view, because another thread may have held a lock of the registry
// at the fork.
//
// Thread safety: every call from any thread. A View belongs to one thread at a time.
#ifndef ENGINE_RACE_INDEX_VIEWS_H_
#define ENGINE_RACE_INDEX_VIEWS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/fork_mark.h"
#include "engine_race/base/pinned_view.h"
#include "engine_race/base/status.h"
#include "engine_race/index/live_versions.h"

namespace engine_race {

class ViewRegistry {
 public:
  using Registration = ViewRegistration;
  using View = PinnedView;

  // The figures of the live views, for the statistics.
  struct Census {
    uint64_t count = 0;
    uint64_t oldest_version = kLatestVersion;  // of no view: kLatestVersion
    uint64_t oldest_age_ms = 0;
  };

  // Drops the superseded records that no live view can see.
  class Sweeper {
   public:
    // Called by a thread that releases or moves a view and waits for this call: it must only note
    // the request.
    virtual void RequestSweep() noexcept = 0;
    // Returns when no step of a sweep is under way. No step begins later. The registry sends no
    // more requests.
    virtual void Stop() noexcept = 0;

   protected:
    ~Sweeper() = default;
  };

  // The registry deletes itself once it is closed and its last view is released. In a forked child
  // it stays. kOutOfMemory.
  static Status Create(ViewRegistry** registry);
  ViewRegistry(const ViewRegistry&) = delete;
  ViewRegistry& operator=(const ViewRegistry&) = delete;
  // Stops the sweeper.
  void Close() noexcept;
  // Whether Close was called. A view of a closed registry may only be released. In a forked child a
  // registry may look closed.
  bool closed() const {
    // Acquire: pairs with the release in Close.
    return !open_flag().load(std::memory_order_acquire);
  }
  // True until closed() is. The public handle of an iterator cannot include this header.
  const std::atomic<bool>& open_flag() const { return fork_mark_.flag(); }
  // Whether the registry belongs to a parent of this process.
  bool is_inherited() const { return fork_mark_.InChild(); }
  // Ok while views may be used; else kInvalidArgument.
  Status CheckUsable() const;
  bool is_usable() const { return !closed() && !is_inherited(); }

  // Takes a view of the current state. *view must be empty. kOutOfMemory when it cannot be
  // registered.
  Status Take(View* view);
  // Takes another view of `version`. A view of that version must be held throughout the call.
  Status TakeAt(uint64_t version, View* view);
  // Renew moves a view to the current state, RenewAt to a version that another view pins. Neither
  // allocates or frees memory.
  static void Renew(View* view) noexcept;
  static void RenewAt(uint64_t version, View* view) noexcept;
  // Empties the view; does nothing to an empty one. In a forked child it changes nothing but *view.
  static void Release(View* view) noexcept;

  Census TakeCensus() const;

  // For a writer that holds its bucket's lock. The stamp of its record, and whether a view may show
  // the record that it supersedes.
  struct WriteStamp {
    uint64_t version = 0;
    bool watched = false;
  };
  WriteStamp StampWrite() const {
    // Sequentially consistent: comes after the store to unchanged_ in BucketIndex::Add. Orders the
    // writer before or after Take's change of the version. Acquire: pairs with that change; see the
    // top of this file.
    const uint64_t version = version_.load(std::memory_order_seq_cst) & kVersionMask;
    return {version, (live_.load(std::memory_order_acquire) & kCountMask) != 0};
  }

  // Between the two no view is taken. Several threads may be between them. A batch that begins lets
  // views that wait go first.
  void BeginBatch() noexcept;
  void EndBatch() noexcept;

  // The versions of all live views. It may miss views that were taken after the call began.
  LiveVersions Live() const noexcept;
  // The versions of all live views, and every version from now on. So it also decides about records
  // that are superseded later.
  LiveVersions LiveFromNowOn() const noexcept;
  uint64_t Oldest() const noexcept;  // kLatestVersion when there are none
  // Says that superseded records are kept for views. Called once a sweep can find them. The caller
  // then compares Oldest() with what it knew: a view that was released before this call requested
  // no sweep.
  void NotePinned() noexcept;
  // Says that no superseded record is kept any more. Not at the same time as NotePinned.
  void NoteUnpinned() noexcept;
  // To be called before there are views.
  void set_sweeper(Sweeper* sweeper) { sweeper_ = sweeper; }

 private:
  // Parts of the word of the count: the number of live views, two flags, and the number of copies.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kPinned = uint64_t{1} << 30;
  static constexpr uint64_t kCountMask = kPinned - 1;
  static constexpr uint32_t kCopyShift = 32;
  static constexpr uint64_t kCopy = uint64_t{1} << kCopyShift;

  // Parts of the word of the version: below the version, above it the number of batches that are
  // between BeginBatch and EndBatch.
  static constexpr uint32_t kBatchShift = 48;
  static constexpr uint64_t kBatch = uint64_t{1} << kBatchShift;
  static constexpr uint64_t kVersionMask = kBatch - 1;

  // Registrations lie in arrays that never move. Each new array doubles their number.
  static constexpr size_t kFirstCount = 64;
  static constexpr size_t kArrayCount = 20;

  ViewRegistry();
  ~ViewRegistry();
  Registration* RegistrationAt(size_t index) const;
  Registration* Claim(uint64_t state) noexcept;
  // Begins the next version when no batch is under way, and gives the one before.
  uint64_t NextVersion() noexcept;
  bool Grow(size_t count) noexcept;
  bool IsCrowded(size_t count) const;
  template <typename BeginFn, typename SeenFn>
  bool Look(const BeginFn& begin, const SeenFn& seen) const;
  // Called when a view has left `version` and is still counted. Requests a sweep if that was the
  // oldest view.
  void MovedOn(uint64_t version) noexcept;
  bool OldestHasGone() noexcept;

  // Writers read these two.
  alignas(64) std::atomic<uint64_t> version_{1};
  std::atomic<uint64_t> live_{kOpen};

  // Views that wait for batches. Writers of single records do not read it.
  alignas(64) std::atomic<uint32_t> waiting_{0};

  // Writers do not read these, and they seldom change.
  alignas(64) ForkMark fork_mark_;  // its flag: not closed
  std::atomic<size_t> registration_count_{0};
  std::atomic<Registration*> arrays_[kArrayCount] = {};
  // The oldest version that was known to be live. A view of a later version cannot have been the
  // oldest. kLatestVersion when it is not known.
  std::atomic<uint64_t> oldest_{kLatestVersion};

  std::mutex grow_mutex_;
  std::unique_ptr<Registration[]> owned_arrays_[kArrayCount];  // under grow_mutex_
  std::mutex oldest_mutex_;                                    // for changes of oldest_
  std::mutex sweeper_mutex_;
  Sweeper* sweeper_ = nullptr;  // under sweeper_mutex_ once there are views
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VIEWS_H_
