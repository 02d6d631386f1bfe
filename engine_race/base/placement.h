// On which NUMA nodes the pages of memory shall lie. Made by numa/, handed to base/memory by the
// rooms that take memory.
//
// Where the kernel has no NUMA, or a container forbids the call, memory lies wherever the kernel
// puts it. numa/store_placement.h finds that out once and says so. Where the kernel grants kBind,
// it is no wish: the kernel ends a process that needs a page when the nodes have none left.
//
// Values; a PolicyScope belongs to the thread that makes it.
#ifndef ENGINE_RACE_BASE_PLACEMENT_H_
#define ENGINE_RACE_BASE_PLACEMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace engine_race {

class Placement {
 public:
  // Linux counts nodes below this.
  static constexpr uint32_t kMaxNodeCount = 1024;
  enum class Mode : uint8_t {
    kAnywhere,    // as the thread that touches a page first has it
    kInterleave,  // page by page over the nodes
    kBind,        // of the nodes the one that is nearest to the thread that touches a page first
    kPrefer,      // on the one node, and when that has no memory left on others
  };

  Placement() = default;
  // `nodes` are below kMaxNodeCount. At least one; for kPrefer one.
  Placement(Mode mode, std::span<const uint32_t> nodes);

  bool anywhere() const { return mode_ == Mode::kAnywhere; }

  // Where a group of pages lies that is small and has a number. Interleaved groups have one node
  // each, and numbers spread over the nodes. The kernel begins to interleave at the first node
  // after each change of a thread's policy, so that small groups would crowd there.
  Placement OfGroup(uint64_t number) const noexcept;

  // For the pages of [data, data + size_bytes) that are touched from now on. `data` is at the start
  // of a page. Answers 0 or errno, and leaves errno alone.
  int Apply(void* data, size_t size_bytes) const noexcept;

 private:
  friend class PolicyScope;
  static constexpr size_t kWordBits = 8 * sizeof(unsigned long);

  int KernelMode() const noexcept;

  Mode mode_ = Mode::kAnywhere;
  uint32_t node_count_ = 0;
  std::array<unsigned long, kMaxNodeCount / kWordBits> mask_ = {};
};

// While it lives, pages that this thread touches first lie where `placement` says. That holds for
// pages of files in the page cache, too: for these Apply does nothing.
//
// A thread whose own policy interleaves keeps that one: every change of it would begin the thread's
// interleaving again at the first node. Threads that are started meanwhile inherit the policy.
class PolicyScope {
 public:
  explicit PolicyScope(const Placement& placement) noexcept {
    if (!placement.anywhere()) [[unlikely]] {
      Enter(placement);
    }
  }
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;
  ~PolicyScope() {
    if (entered_) [[unlikely]] {
      Leave();
    }
  }

  // 0, or the errno with which the kernel has refused.
  int error() const { return error_; }

 private:
  void Enter(const Placement& placement) noexcept;
  void Leave() noexcept;

  bool entered_ = false;
  int error_ = 0;
  // Of the thread before.
  int old_mode_ = 0;
  std::array<unsigned long, Placement::kMaxNodeCount / Placement::kWordBits> old_mask_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PLACEMENT_H_
