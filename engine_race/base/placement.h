// The NUMA nodes on which pages of memory shall lie. numa/ makes a Placement; rooms pass it to the
// allocators of base/.
//
// Where the kernel has no NUMA or a container forbids the call, the kernel chooses the node.
// numa/store_placement.h tries that once and logs it. With kBind the kernel ends a process whose
// nodes have no memory left.
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
  // Linux counts nodes below this on every architecture.
  static constexpr uint32_t kMaxNodeCount = 1024;
  enum class Mode : uint8_t {
    kAnywhere,    // by the policy of the thread that first touches the page
    kInterleave,  // page by page over the nodes
    kBind,        // on the given node nearest to that thread, never elsewhere
    kPrefer,      // on the given node, on others when it is full
  };

  Placement() = default;
  // `nodes` are below kMaxNodeCount. At least one; for kPrefer one.
  Placement(Mode mode, std::span<const uint32_t> nodes);

  bool anywhere() const { return mode_ == Mode::kAnywhere; }

  // For a few pages. Interleaved pages lie all on one node, chosen by `number`. The kernel restarts
  // a thread's interleaving at the first node after each change of policy, so few pages would crowd
  // there. Other modes stay as they are.
  Placement OnOneNode(uint64_t number) const noexcept;

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
// A thread whose own policy interleaves keeps that policy, unless `placement` binds: each change
// would restart the thread's interleaving at the first node. Threads that this thread starts
// meanwhile inherit the policy.
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
  // The thread's policy before.
  int old_mode_ = 0;
  std::array<unsigned long, Placement::kMaxNodeCount / Placement::kWordBits> old_mask_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PLACEMENT_H_
