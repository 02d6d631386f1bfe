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
// The registry outlives the store while views are left: Close says that the store is gone, and the
// last view takes the registry with it.
//
// Thread safety: everything from any thread; a View belongs to one thread at a time.
#ifndef ENGINE_RACE_INDEX_VIEWS_H_
#define ENGINE_RACE_INDEX_VIEWS_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race {

// Sees every write.
inline constexpr uint64_t kLatestEpoch = ~uint64_t{0};

class ViewRegistry {
 public:
  struct Slot;

  // One registered view. Empty when default-made. Plain data: whoever holds it releases it.
  struct View {
    ViewRegistry* registry = nullptr;
    Slot* slot = nullptr;
    uint64_t epoch = 0;
  };

  // What writers need to know of the live views.
  struct Census {
    uint64_t count = 0;
    uint64_t oldest_epoch = kLatestEpoch;  // of no view: kLatestEpoch
    uint64_t oldest_age_ms = 0;
  };

  // Ends with the last view after Close. kOutOfMemory.
  static Status Create(ViewRegistry** registry);
  void Close() noexcept;
  // No view of a closed registry may be used for anything but to be released.
  bool closed() const;

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

 private:
  ViewRegistry();
  ~ViewRegistry();
  struct Impl;
  Impl* const impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VIEWS_H_
