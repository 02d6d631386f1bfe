#include "engine_race/base/placement.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// The kernel reads one bit less than it is told.
constexpr unsigned long kMaskBits = Placement::kMaxNodeCount + 1;
// MPOL_WEIGHTED_INTERLEAVE, which headers before Linux 6.9 do not have.
constexpr int kWeightedInterleave = 6;

bool Interleaves(int kernel_mode) {
  const int mode = kernel_mode & ~MPOL_MODE_FLAGS;
  return mode == MPOL_INTERLEAVE || mode == kWeightedInterleave;
}

}  // namespace

Placement::Placement(Mode mode, std::span<const uint32_t> nodes) : mode_(mode) {
  for (const uint32_t node : nodes) {
    ENGINE_RACE_ASSERT(node < kMaxNodeCount);
    mask_[node / kWordBits] |= 1UL << node % kWordBits;
  }
  for (const unsigned long word : mask_) node_count_ += static_cast<uint32_t>(std::popcount(word));
  ENGINE_RACE_ASSERT(node_count_ > 0 && (mode != Mode::kPrefer || node_count_ == 1));
}

Placement Placement::OnOneNode(uint64_t number) const noexcept {
  if (mode_ != Mode::kInterleave) return *this;
  Placement one;
  one.mode_ = Mode::kPrefer;
  one.node_count_ = 1;
  uint64_t skipped = number % node_count_;
  for (size_t i = 0; i < mask_.size(); ++i) {
    for (unsigned long rest = mask_[i]; rest != 0; rest &= rest - 1) {
      if (skipped-- > 0) continue;
      one.mask_[i] = rest & ~(rest - 1);
      return one;
    }
  }
  ENGINE_RACE_ASSERT(false);
  return *this;
}

int Placement::KernelMode() const noexcept {
  switch (mode_) {
    case Mode::kInterleave:
      return MPOL_INTERLEAVE;
    case Mode::kBind:
      return MPOL_BIND;
    case Mode::kPrefer:
      return MPOL_PREFERRED;
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
  const bool known =
      ::syscall(SYS_get_mempolicy, &old_mode_, old_mask_.data(), kMaskBits, nullptr, 0UL) == 0;
  const bool as_wanted =
      known && old_mode_ == placement.KernelMode() && old_mask_ == placement.mask_;
  const bool may_stay = placement.mode_ != Placement::Mode::kBind && Interleaves(old_mode_);
  if (known && (as_wanted || may_stay)) {
    errno = before;
    return;
  }
  entered_ = known && ::syscall(SYS_set_mempolicy, placement.KernelMode(), placement.mask_.data(),
                                kMaskBits) == 0;
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
