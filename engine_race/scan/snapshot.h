// A state of the store that stays readable while writers go on.
//
// It shows every write acknowledged before it was taken and none begun after, and gives the same
// answer each time. Taking and releasing one is a short search under a mutex, however many there
// are. Holding one blocks nobody. It pins 24 bytes of memory for each record that was superseded
// since and that it can still see.
//
// A handle: moves, does not copy, releases itself. Used by one thread at a time, except that any
// number of threads may read at one snapshot. It may outlive its store, for which it is then an
// invalid argument. So it is in a forked child, where releasing it frees nothing.
#ifndef ENGINE_RACE_SCAN_SNAPSHOT_H_
#define ENGINE_RACE_SCAN_SNAPSHOT_H_

#include <utility>

#include "engine_race/base/pinned_view.h"

namespace engine_race {

class Snapshot {
 public:
  // Of nothing: an invalid argument wherever a snapshot is asked for.
  Snapshot() = default;
  explicit Snapshot(const PinnedView& view) : view_(view) {}
  Snapshot(Snapshot&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  Snapshot& operator=(Snapshot&& other) noexcept {
    if (this != &other) {
      Release();
      view_ = std::exchange(other.view_, {});
    }
    return *this;
  }
  ~Snapshot() { Release(); }

  bool is_taken() const { return view_.registry != nullptr; }
  // Iterators made from it stay as they are.
  void Release() noexcept {
    if (is_taken()) ReleaseView();
  }

  const PinnedView& view() const { return view_; }

 private:
  void ReleaseView() noexcept;

  PinnedView view_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SNAPSHOT_H_
