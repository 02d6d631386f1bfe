// The versions of all live views: they decide which superseded records are still needed.
//
// Values: copies share the list of versions. One thread at a time.
#ifndef ENGINE_RACE_INDEX_LIVE_VERSIONS_H_
#define ENGINE_RACE_INDEX_LIVE_VERSIONS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace engine_race {

// The version of a reader without a view: every record is visible to it.
inline constexpr uint64_t kLatestVersion = ~uint64_t{0};

class LiveVersions {
 public:
  using Versions = std::vector<uint64_t>;

  LiveVersions() = default;
  // `versions` ascend; null: none.
  explicit LiveVersions(std::shared_ptr<const Versions> versions)
      : versions_(std::move(versions)),
        oldest_(versions_ == nullptr || versions_->empty() ? kLatestVersion : versions_->front()) {}

  bool empty() const { return oldest_ == kLatestVersion; }
  // Whether some view of a version in [first, end) may be live.
  bool AnyIn(uint64_t first, uint64_t end) const {
    if (first >= end || end <= oldest_) return false;
    // Without a search where a few old views are all there is.
    if (first <= oldest_ || end > open_from_) return true;
    if (versions_ == nullptr) return false;
    const auto found = std::lower_bound(versions_->begin(), versions_->end(), first);
    return found != versions_->end() && *found < end;
  }
  // kLatestVersion when there are none.
  uint64_t oldest() const { return oldest_; }

  // Says that views of any version from `version` on may be live.
  void AddAllFrom(uint64_t version) noexcept {
    oldest_ = std::min(oldest_, version);
    open_from_ = std::min(open_from_, version);
  }

 private:
  std::shared_ptr<const Versions> versions_;
  uint64_t open_from_ = kLatestVersion;
  uint64_t oldest_ = kLatestVersion;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_LIVE_VERSIONS_H_
