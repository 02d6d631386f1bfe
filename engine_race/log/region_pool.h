// Regions of one size that are used again. A fresh region costs a page fault for each of its pages,
// which is more than the copy into it.
//
// Thread safety: every call from any thread. Leases must end before their pool.
// Owner of the regions that nobody holds. Invariant: it keeps kept_count of them at most.
#ifndef ENGINE_RACE_LOG_REGION_POOL_H_
#define ENGINE_RACE_LOG_REGION_POOL_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"

namespace engine_race {

class RegionPool {
 public:
  // Holds a region from Take until it ends, or nothing.
  class Lease {
   public:
    Lease() = default;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->GiveBack(std::move(region_));
    }
    char* data() const { return region_.data(); }

   private:
    friend class RegionPool;
    RegionPool* pool_ = nullptr;
    Region region_;
  };

  // Keeps at most `kept_count` regions that nobody holds, or as many as have kKeptBytes.
  static constexpr uint64_t kKeptBytes = uint64_t{2} << 20;
  explicit RegionPool(size_t region_bytes) : RegionPool(region_bytes, kKeptBytes / region_bytes) {}
  RegionPool(size_t region_bytes, size_t kept_count)
      : region_bytes_(region_bytes), kept_count_(kept_count) {
    // GiveBack must not need memory.
    free_.reserve(kept_count);
  }

  // Puts a region of unspecified content into an empty lease. A new region lies as `placement`
  // says. kOutOfMemory.
  Status Take(const Placement& placement, Lease* lease) {
    ENGINE_RACE_ASSERT(lease->pool_ == nullptr);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        // The last one given back is the likeliest to be in a cache.
        lease->region_ = std::move(free_.back());
        free_.pop_back();
        lease->pool_ = this;
        return Status::Ok();
      }
    }
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(region_bytes_, /*huge_pages=*/false, &lease->region_, placement));
    lease->pool_ = this;
    return Status::Ok();
  }

 private:
  void GiveBack(Region region) noexcept {
    ENGINE_RACE_ASSERT(region.size() >= region_bytes_);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() < kept_count_) free_.push_back(std::move(region));
  }

  const size_t region_bytes_;
  const size_t kept_count_;
  std::mutex mutex_;
  std::vector<Region> free_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_REGION_POOL_H_
