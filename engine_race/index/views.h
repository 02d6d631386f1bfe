// Which states of the store are being looked at: epochs, and the registry of the views that pin
// them.
//
// A counter of epochs moves on with each view that is taken. Every write is stamped with the epoch
// that it finds under the lock of its bucket's index, and a view of epoch s shows what is stamped
// with s or less: all that was acknowledged before the view was taken, nothing begun after, and in
// each bucket what it held when the view first came to it. Taking a view and giving it back is a
// handful of atomic operations on a slot of its own and one shared line, whatever the number of
// views; writers read that line and nothing else.
//
// No live view may be missed by whoever throws superseded records away. What that rests on:
//
// - Taking: the slot says "pending" first, then the count of live views goes up, then the epoch
//   moves on, then the slot says which one it was. All but the last are atomic changes that nothing
//   passes. A writer that loads epoch E has thus a happens-before with every view of an epoch below
//   E: it finds that view counted, and its slot at least pending, which counts as every epoch from
//   the one named there on. Views of E and later are of no interest to it: they show the newest
//   record of each key that was stamped with E or less.
// - Releasing: the slot is emptied before the count goes down.
// - Copying: a copy's slot is filled, then the number of copies goes up, in the word of the count;
//   whoever copies keeps the view that pins the epoch until then. A census that looked at the
//   copy's slot before it was filled and at the other view's after it was emptied finds that the
//   number has changed, and looks again. After some rounds it answers that anything may be live.
// - Moving on to now is taking, with the slot kept; moving to another view's epoch is copying.
//
// A release (or a move) of the oldest view asks for a sweep, which throws away superseded records
// that are kept for views. A writer that keeps some says so in the word of the count first and then
// looks whether the oldest view has gone meanwhile; a view that goes empties its slot first and
// then looks at that word. Both changes go through the same word, so one of the two sees the other.
//
// The registry outlives the store while views are left: Close says that the store is gone, and the
// last view takes the registry with it.
//
// Thread safety: everything from any thread; a View belongs to one thread at a time.
#ifndef ENGINE_RACE_INDEX_VIEWS_H_
#define ENGINE_RACE_INDEX_VIEWS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/status.h"
#include "engine_race/index/live_epochs.h"

namespace engine_race {

class ViewRegistry {
 public:
  struct Slot;

  // One registered view. Empty when default-made. Plain data: whoever holds it releases it.
  struct View {
    ViewRegistry* registry = nullptr;
    Slot* slot = nullptr;
    uint64_t epoch = 0;
  };

  // What the stats say of the live views.
  struct Census {
    uint64_t count = 0;
    uint64_t oldest_epoch = kLatestEpoch;  // of no view: kLatestEpoch
    uint64_t oldest_age_ms = 0;
  };

  // Throws away what no live view can see.
  class Sweeper {
   public:
    // Called by a thread that releases or moves a view, which waits for it: it only asks.
    virtual void RequestSweep() noexcept = 0;
    // Returns when no step of a sweep is under way; none may come later, and no request will.
    virtual void Stop() noexcept = 0;

   protected:
    ~Sweeper() = default;
  };

  // Ends with the last view after Close. kOutOfMemory.
  static Status Create(ViewRegistry** registry);
  ViewRegistry(const ViewRegistry&) = delete;
  ViewRegistry& operator=(const ViewRegistry&) = delete;
  // Stops the sweeper.
  void Close() noexcept;
  // No view of a closed registry may be used for anything but to be released.
  bool closed() const {
    // Acquire: pairs with the release in Close.
    return closed_.load(std::memory_order_acquire);
  }

  // A view of now. kOutOfMemory when there is no room to register it; *view must be empty.
  Status Take(View* view);
  // Another view of what `epoch` shows, which a view that is held throughout the call pins.
  Status TakeAt(uint64_t epoch, View* view);
  // Moves a view on to now, or to an epoch that another view pins. Nothing is allocated or freed.
  static void Renew(View* view) noexcept;
  static void RenewAt(uint64_t epoch, View* view) noexcept;
  // Empties the view; does nothing to an empty one.
  static void Release(View* view) noexcept;

  Census TakeCensus() const;

  // For a writer that holds its bucket's lock: the stamp of its record, and whether a view may show
  // the record that it supersedes.
  struct WriteStamp {
    uint64_t epoch = 0;
    bool watched = false;
  };
  WriteStamp StampWrite() const {
    // Seq_cst: behind the store to unchanged_ in BucketIndex::Add, before Take's change of the
    // epoch or behind it. Acquire: pairs with that change, as the text above says.
    const uint64_t epoch = epoch_.load(std::memory_order_seq_cst);
    return {epoch, (live_.load(std::memory_order_acquire) & kCountMask) != 0};
  }

  // The epochs of all live views, but perhaps not of those taken after the call began.
  LiveEpochs Live() const noexcept;
  // The same, and all epochs from now on: right also for records that are superseded later.
  LiveEpochs LiveFromNowOn() const noexcept;
  uint64_t Oldest() const noexcept;  // kLatestEpoch when there are none
  // Superseded records are kept for views. Called once a sweep can find them; the caller looks at
  // Oldest() again afterwards, for a view that has gone meanwhile asked for nothing.
  void NotePinned() noexcept;
  // Nothing is kept any more. Not at the same time as NotePinned.
  void NoteUnpinned() noexcept;
  // Before there are views.
  void set_sweeper(Sweeper* sweeper) { sweeper_ = sweeper; }

 private:
  // The word of the count: the number of live views, flags, and above them the number of copies.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kPinned = uint64_t{1} << 30;
  static constexpr uint64_t kCountMask = kPinned - 1;
  static constexpr uint32_t kCopyShift = 32;
  static constexpr uint64_t kCopy = uint64_t{1} << kCopyShift;

  // Slots come in chunks, each as many as there were before it, and stay where they are.
  static constexpr size_t kFirstSlots = 64;
  static constexpr size_t kChunkCount = 20;

  ViewRegistry();
  ~ViewRegistry();
  Slot* SlotAt(size_t index) const;
  Slot* Claim(uint64_t state) noexcept;
  bool Grow(size_t slot_count) noexcept;
  bool IsCrowded(size_t slot_count) const;
  template <typename BeginFn, typename SeenFn>
  bool Look(const BeginFn& begin, const SeenFn& seen) const;
  // The view no longer is one of `epoch`, and still is counted.
  void MovedOn(uint64_t epoch) noexcept;
  bool OldestHasGone() noexcept;

  // What writers read.
  alignas(64) std::atomic<uint64_t> epoch_{1};
  std::atomic<uint64_t> live_{kOpen};

  // The others read these, and seldom change them.
  alignas(64) std::atomic<bool> closed_{false};
  std::atomic<size_t> slot_count_{0};
  std::atomic<Slot*> chunks_[kChunkCount] = {};
  // No view that is younger can have been the oldest; kLatestEpoch when nobody knows.
  std::atomic<uint64_t> oldest_{kLatestEpoch};

  std::mutex grow_mutex_;
  std::unique_ptr<Slot[]> owned_chunks_[kChunkCount];  // under grow_mutex_
  std::mutex oldest_mutex_;                            // for changes of oldest_
  std::mutex sweeper_mutex_;
  Sweeper* sweeper_ = nullptr;  // under sweeper_mutex_ once there are views
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VIEWS_H_
