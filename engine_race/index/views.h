// Versions of the store's state, and the registry of the views that pin them.
//
// A counter of versions grows with each view that is taken. A writer stamps its record with the
// version that it finds under the lock of its bucket's index. A view of version `s` shows every
// record that is stamped with `s` or less. So it shows all that was acknowledged before the view
// was taken, and nothing that was begun after. Of a bucket that is written to meanwhile it shows
// one state, whenever it is looked at.
//
// A registry belongs to the process that made it. A forked child may only release its views.
//
// Thread safety: every call from any thread. A View belongs to one thread at a time.
#ifndef ENGINE_RACE_INDEX_VIEWS_H_
#define ENGINE_RACE_INDEX_VIEWS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/fork_mark.h"
#include "engine_race/base/pinned_view.h"
#include "engine_race/base/status.h"
#include "engine_race/index/live_versions.h"

namespace engine_race {

class ViewRegistry {
 public:
  using View = PinnedView;

  // The figures of the live views, for the statistics.
  struct Census {
    uint64_t count = 0;
    uint64_t oldest_version = kLatestVersion;  // of no view: kLatestVersion
    uint64_t oldest_age_ms = 0;
  };

  // Learns that superseded records may be dropped, because no live view can see them.
  class Sweeper {
   public:
    // Called by a thread that releases or moves a view and waits for this call: it may wake a
    // thread, but neither sweeps nor waits.
    virtual void RequestSweep() noexcept = 0;

   protected:
    ~Sweeper() = default;
  };

  // The registry deletes itself once it is closed and its last view is released. In a forked child
  // it stays. kOutOfMemory.
  static Status Create(ViewRegistry** registry);
  ViewRegistry(const ViewRegistry&) = delete;
  ViewRegistry& operator=(const ViewRegistry&) = delete;
  // Not during a sweep. The sweeper gets no requests afterwards.
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
  // Renew moves a view to the current state, RenewAt to a version that another view holds. Neither
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
    // Sequentially consistent: comes after BucketIndex::Add has hidden the published runs. Orders
    // the writer before or after Take's change of the version. Acquire: pairs with that change; see
    // the top of views.cc.
    const uint64_t version = version_.load(std::memory_order_seq_cst) & kVersionMask;
    return {version, live_.load(std::memory_order_acquire) != kOpen};
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
  // Whether a view of a version in [first, end) is live: Live().AnyIn without the copy.
  bool AnyIn(uint64_t first, uint64_t end) const noexcept;
  uint64_t Oldest() const noexcept;  // kLatestVersion when there are none
  // How many versions all calls have looked at so far: the work that could grow with the number of
  // views.
  uint64_t visited_count() const;
  // Says that superseded records are kept for views. Called once a sweep can find them. The caller
  // then compares Oldest() with what it knew: a view that was released before this call requested
  // no sweep.
  void NotePinned() noexcept;
  // Says that no superseded record is kept any more. Not at the same time as NotePinned.
  void NoteUnpinned() noexcept;
  // To be called before there are views.
  void set_sweeper(Sweeper* sweeper) { sweeper_ = sweeper; }

 private:
  // In the word of the count, above the number of live views: the registry is not closed.
  static constexpr uint64_t kOpen = uint64_t{1} << 63;

  // Parts of the word of the version: below the version, above it the number of batches that are
  // between BeginBatch and EndBatch.
  static constexpr uint32_t kBatchShift = 48;
  static constexpr uint64_t kBatch = uint64_t{1} << kBatchShift;
  static constexpr uint64_t kVersionMask = kBatch - 1;

  // A version that was given to a view.
  struct Held {
    uint64_t version = 0;
    uint64_t taken_ms = 0;
    size_t view_count = 0;  // 0: no view holds it any more
    // Where none does: a place behind this one. No view holds a version of a place between.
    size_t next = 0;
  };
  // The versions without a view that may stay in any case.
  static constexpr size_t kSlack = 64;

  ViewRegistry() = default;
  ~ViewRegistry() = default;

  // All of these are called under the mutex.

  // Makes sure that every view has a place, and one more. False when memory is refused.
  bool ReserveOne() noexcept;
  // Begins the next version and gives the one before. Drops the lock while it waits for batches.
  uint64_t NextVersion(std::unique_lock<std::mutex>* lock) noexcept;
  // The first place whose version is not below `version`.
  size_t LowerBound(uint64_t version) const noexcept;
  // The place of a version that is held.
  size_t PlaceOf(uint64_t version) const noexcept;
  // The first place from `place` on that a view holds, or their number.
  size_t NextHeld(size_t place) const noexcept;
  void Append(uint64_t version) noexcept;
  void Join(uint64_t version) noexcept;
  // A view leaves `version`. True when a sweep is due: the oldest version has no view any more, and
  // superseded records are kept.
  bool Leave(uint64_t version) noexcept;
  void Compact() noexcept;

  // Without the mutex. The view that has moved is still counted.
  void RequestSweep() noexcept;

  // Writers read these two.
  alignas(64) std::atomic<uint64_t> version_{1};
  std::atomic<uint64_t> live_{kOpen};

  // Views that wait for batches. Writers of single records do not read it.
  alignas(64) std::atomic<uint32_t> waiting_{0};

  // Writers do not read these.
  alignas(64) ForkMark fork_mark_;  // its flag: not closed
  mutable std::mutex mutex_;
  // Here and below: under mutex_. Ascending versions. The last one is held.
  mutable std::vector<Held> held_;
  size_t first_ = 0;       // the oldest version that is held, or their number
  size_t gone_count_ = 0;  // versions that no view holds
  bool is_pinned_ = false;
  // A copy of the versions that are held, while it is current. Null: of none.
  mutable std::shared_ptr<const std::vector<uint64_t>> copy_;
  mutable bool is_copy_current_ = true;
  mutable uint64_t visited_count_ = 0;

  std::mutex sweeper_mutex_;
  Sweeper* sweeper_ = nullptr;  // under sweeper_mutex_ once there are views
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VIEWS_H_
