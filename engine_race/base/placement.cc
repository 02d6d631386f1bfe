#include "engine_race/base/placement.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// The kernel reads one bit less than it is told.
constexpr unsigned long kMaskBits = Placement::kMaxNodeCount + 1;

}  // namespace

Placement::Placement(Mode mode, std::span<const uint32_t> nodes) : mode_(mode) {
  for (const uint32_t node : nodes) {
    ENGINE_RACE_ASSERT(node < kMaxNodeCount);
    mask_[node / kWordBits] |= 1UL << node % kWordBits;
  }
}

int Placement::KernelMode() const noexcept {
  switch (mode_) {
    case Mode::kInterleave:
      return MPOL_INTERLEAVE;
    case Mode::kBind:
      return MPOL_BIND;
    default:
      return MPOL_DEFAULT;
  }
}

int Placement::Apply(void* data, size_t size_bytes) const noexcept {
  if (anywhere()) return 0;
  const int before = errno;
  const long failed =
      ::syscall(SYS_mbind, data, size_bytes, KernelMode(), mask_.data(), kMaskBits, 0U);
  const int error = failed == 0 ? 0 : errno;
  errno = before;
  return error;
}

void PolicyScope::Enter(const Placement& placement) noexcept {
  const int before = errno;
  old_mask_ = {};
  entered_ =
      ::syscall(SYS_get_mempolicy, &old_mode_, old_mask_.data(), kMaskBits, nullptr, 0UL) == 0 &&
      ::syscall(SYS_set_mempolicy, placement.KernelMode(), placement.mask_.data(), kMaskBits) == 0;
  error_ = entered_ ? 0 : errno;
  errno = before;
}

void PolicyScope::Leave() noexcept {
  const int before = errno;
  // The default has no nodes, and the kernel refuses a mask with it.
  const bool has_nodes = (old_mode_ & ~MPOL_MODE_FLAGS) != MPOL_DEFAULT &&
                         (old_mode_ & ~MPOL_MODE_FLAGS) != MPOL_LOCAL;
  (void)::syscall(SYS_set_mempolicy, old_mode_, has_nodes ? old_mask_.data() : nullptr,
                  has_nodes ? kMaskBits : 0UL);
  errno = before;
}

}  // namespace engine_race
