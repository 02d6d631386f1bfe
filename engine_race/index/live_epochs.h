// The epochs that live views show: what decides which superseded records are still of use.
//
// Values. One thread at a time.
#ifndef ENGINE_RACE_INDEX_LIVE_EPOCHS_H_
#define ENGINE_RACE_INDEX_LIVE_EPOCHS_H_

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace engine_race {

// Sees every write.
inline constexpr uint64_t kLatestEpoch = ~uint64_t{0};

class LiveEpochs {
 public:
  bool empty() const { return epochs_.empty() && open_from_ == kLatestEpoch; }
  // Whether some view of an epoch in [first, end) may be live.
  bool AnyIn(uint64_t first, uint64_t end) const {
    if (first >= end || end <= oldest_) return false;
    // Without a search where a few old views are all there is.
    if (first <= oldest_ || end > open_from_) return true;
    const auto found = std::lower_bound(epochs_.begin(), epochs_.end(), first);
    return found != epochs_.end() && *found < end;
  }
  // kLatestEpoch when there are none.
  uint64_t oldest() const { return oldest_; }

  // A view of `epoch` is live. Before Sort. Never fails: without memory it says more than is true.
  void Add(uint64_t epoch) noexcept {
    oldest_ = std::min(oldest_, epoch);
    try {
      epochs_.push_back(epoch);
    } catch (const std::bad_alloc&) {
      AddAllFrom(epoch);
    }
  }
  // Views of any epoch from `epoch` on may be live.
  void AddAllFrom(uint64_t epoch) noexcept {
    oldest_ = std::min(oldest_, epoch);
    open_from_ = std::min(open_from_, epoch);
  }
  void Sort() { std::sort(epochs_.begin(), epochs_.end()); }
  void Clear() {
    epochs_.clear();
    open_from_ = oldest_ = kLatestEpoch;
  }

 private:
  std::vector<uint64_t> epochs_;
  uint64_t open_from_ = kLatestEpoch;
  uint64_t oldest_ = kLatestEpoch;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_LIVE_EPOCHS_H_
