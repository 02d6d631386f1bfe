// Where one store's memory lies and where its own threads run, as Options::numa asks for it.
//
// With kNone everything is left alone. With kInterleave memory is spread over the nodes, page by
// page. With kBind it lies on the nodes that are named, and nowhere else. Of several nodes, each
// page lies on the one that is nearest to the thread that touches it first.
//
// Placed are the index, staging, hot values, and the buffers of ranges, workers, groups and the
// journal. The windows of ranges and iterators are placed too. docs/architecture.md lists what
// is not placed.
//
// The store's own threads load ranges, run ReadAsync, keep the index and make checkpoints. They run
// on the CPUs of the nodes that the store's devices hang on. The kernel does not name such nodes
// for every file system. With kBind these are nodes among those named, or else all that are named.
// The threads that build the index run on the CPUs of all named nodes. Callers' threads run where
// they do, also while they build the index. The functions that callers give to ReadAsync run on the
// store's threads. The CPUs are those that the thread which opens the store may use.
//
// The store does without whatever it cannot have, as with kNone, and says so in the log.
//
// Set up by one thread; constant and thread-safe afterwards.
#ifndef ENGINE_RACE_NUMA_STORE_PLACEMENT_H_
#define ENGINE_RACE_NUMA_STORE_PLACEMENT_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/numa/topology.h"

namespace engine_race::numa {

class StorePlacement {
 public:
  // Where the machine is described.
  struct Roots {
    std::string sysfs = kSysfsRoot;
    std::string proc = kProcRoot;
  };

  // Leaves everything alone.
  StorePlacement() = default;

  // Plans all that needs no store. kInvalidArgument, with the node's number, for a node that the
  // machine does not have. Where the kernel shows no nodes, nothing is placed, and the log says so.
  static Status Plan(const Options& options, const Roots& roots, StorePlacement* placement);
  static Status Plan(const Options& options, StorePlacement* placement) {
    return Plan(options, Roots(), placement);
  }
  // Chooses the CPUs of the store's own threads: `devices` are those that its values lie on.
  void PlaceThreads(std::span<const dev_t> devices, const LogFn& log);

  const Placement& memory() const { return memory_; }
  // Empty: the store's threads inherit the CPUs of the threads that start them.
  const std::vector<uint32_t>& device_thread_cpus() const { return device_thread_cpus_; }
  // The CPUs of threads that build the index; empty as above.
  const std::vector<uint32_t>& build_cpus() const { return build_cpus_; }
  // At most one thread per CPU of `cpus`; `count` when `cpus` is empty.
  static uint32_t LimitTo(const std::vector<uint32_t>& cpus, uint32_t count) {
    return cpus.empty() ? count : std::min(count, static_cast<uint32_t>(cpus.size()));
  }

  // Called when it begins by each of the store's own threads that read or write the devices.
  void EnterDeviceThread() const noexcept { Enter(device_thread_cpus_); }
  // Called when it begins by each of the store's own threads that build the index.
  void EnterBuildThread() const noexcept { Enter(build_cpus_); }

 private:
  void PlaceMemory(const Options& options);
  void WarnOfLittleMemory(std::span<const uint32_t> nodes, const Options& options) const;
  static void Enter(const std::vector<uint32_t>& cpus) noexcept;
  std::vector<uint32_t> NodesOfThreads(std::span<const dev_t> devices, const LogFn& log) const;
  std::vector<uint32_t> CpusOf(std::span<const uint32_t> nodes) const;

  NumaMode mode_ = NumaMode::kNone;
  Roots roots_;
  Topology topology_;
  Allowed allowed_;
  // Those named, or with none named all.
  std::vector<uint32_t> nodes_;
  Placement memory_;
  std::vector<uint32_t> device_thread_cpus_;
  std::vector<uint32_t> build_cpus_;
};

}  // namespace engine_race::numa

#endif  // ENGINE_RACE_NUMA_STORE_PLACEMENT_H_
