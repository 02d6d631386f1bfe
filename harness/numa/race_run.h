// Runs the instances of a race together: a copy of the program each, bound to nodes, from phase to
// phase in step.
//
// An instance says "start PHASE" before each phase. It says "done PHASE PID" when all of the
// phase's memory is in use. After each line it waits for an answer. Between the two lines all
// instances work at once. One that fails stops the others.
#ifndef HARNESS_NUMA_RACE_RUN_H_
#define HARNESS_NUMA_RACE_RUN_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/status.h"
#include "engine_race/numa/topology.h"
#include "harness/numa/instance_process.h"
#include "harness/numa/process_memory.h"

namespace engine_race::harness {

// Which instances a race over NUMA nodes has: the nodes, the keys and the directory of each.
//
// All that can be wrong with them is found here, before anything is made or started. Plain values
// and functions that change nothing.

struct InstancePlan {
  // From 0 on.
  uint32_t number = 0;
  // Nodes whose CPUs it runs on.
  std::vector<uint32_t> cpu_nodes;
  // Nodes that its memory comes from: those of its group that have some, else the nearest one.
  std::vector<uint32_t> memory_nodes;
  uint32_t cpu_count = 0;
  KeyRange keys;
  // Holds its store, its copy of the program and its log.
  std::string dir;

  // "instance 2 (nodes 4-5)"
  std::string Name() const;
};

// The user's wishes. An empty one is left to PlanRace.
struct RaceRequest {
  // Groups of near nodes; 0: a group a node.
  uint32_t group_count = 0;
  // Lists of nodes, "0-1", one an instance.
  std::vector<std::string> groups = {};
  // "FIRST-LAST", one an instance.
  std::vector<std::string> key_ranges = {};
  // Directories that are there, one an instance.
  std::vector<std::string> dirs = {};
  // Otherwise the instances have directories of their own below this one.
  std::string parent_dir = {};
};

// The nodes that have CPUs, in `group_count` groups of near nodes whose sizes differ by one at
// most. Each group ascends, and groups are in order of their first nodes. A node without CPUs joins
// the nearest group. kInvalidArgument when there are fewer nodes with CPUs than groups.
Status GroupNearNodes(const numa::Topology& topology, uint32_t group_count,
                      std::vector<std::vector<uint32_t>>* groups);

// The key space in `count` parts of the same size, to one key.
std::vector<KeyRange> SplitKeys(uint32_t count);
// kInvalidArgument, naming the keys, unless each key is in one range and in one only.
Status CheckKeyRanges(const std::vector<KeyRange>& ranges);

// kInvalidArgument, with the reason, when the request cannot be met on this machine.
Status PlanRace(const RaceRequest& request, const numa::Topology& topology,
                const numa::Allowed& allowed, std::vector<InstancePlan>* instances);

// Where the text of the instances comes from.
enum class TextMode {
  kCopies,  // a copy of the program for each, made on its nodes
  kShared,  // one copy, on the nodes of the first
  kRemap,   // one copy, from which each moves its text to memory of its own
};
const char* TextModeName(TextMode mode);

struct RaceSettings {
  std::string program;
  // bin/numa, which makes the copies; by default the program that is running.
  std::string launcher;
  TextMode text = TextMode::kCopies;
  std::vector<std::string> phases;
  // Flags of bin/race that are the same for all instances.
  std::vector<std::string> race_flags;
  // Whether to look where memory lies at the end of each phase.
  bool reports_placement = true;
};

// The figures of a phase that bin/race reports.
struct PhaseFigures {
  double seconds = 0;
  double cpu_seconds = 0;
  uint64_t record_count = 0;
  // Latency of one operation; 0 for a range.
  double mean_ns = 0;
  uint64_t p50_ns = 0;
  uint64_t p99_ns = 0;
  // Of a range: the two passes.
  std::vector<double> pass_seconds;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseFigures, seconds, cpu_seconds, record_count, mean_ns,
                                   p50_ns, p99_ns, pass_seconds)

// One phase of one instance.
struct InstancePhase : PhaseFigures {
  std::string name;
  uint64_t bytes = 0;
  // Read at the phase's "done" line; none when it could not be read.
  std::optional<ProcessMemory> placement;
};

struct InstanceResult {
  InstancePlan plan;
  std::vector<InstancePhase> phases;
};

class RaceRun {
 public:
  RaceRun(RaceSettings settings, std::vector<InstancePlan> plans, numa::Topology topology);
  // Stops the instances that still run and removes their programs.
  ~RaceRun();

  // Checks that the instances can be bound, takes their directories and makes copies; starts none.
  // Where processes cannot be bound, a single instance runs unbound, and note() says so.
  Status Prepare();
  // Runs all phases of all instances. No instance touches an old store before all have checked
  // their flags and directories. A failure names the instance.
  Status Run();
  // Names a binding or report that was left out, and the reason; empty when there is none.
  const std::string& note() const { return note_; }
  // In the order of the plans.
  const std::vector<InstanceResult>& results() const { return results_; }

 private:
  struct Instance {
    InstancePlan plan;
    // The program that it runs.
    std::string program;
    // Whether that is a copy that this run has made.
    bool made_program = false;
    InstanceProcess process;
  };

  std::vector<std::string> Bound(const InstancePlan& plan,
                                 const std::vector<std::string>& command) const;
  Status CheckBinding();
  Status CopyText();
  Status StartInstance(Instance* instance);
  // One line of each, which must begin with `stage`; `lines` gets what follows it.
  Status AwaitAll(std::span<Instance> instances, const std::string& stage,
                  std::vector<std::string>* lines);
  Status AnswerAll();
  void ReadPlacements(const std::string& phase, const std::vector<std::string>& pids);
  Status RunPhases();
  Status CollectResults();
  static Status Failed(const Instance& instance, const std::string& what);
  void StopAll();

  const RaceSettings settings_;
  const numa::Topology topology_;
  bool is_bound_ = true;
  std::string note_;
  InstanceDirs dirs_;
  std::vector<Instance> instances_;
  std::vector<InstanceResult> results_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_RACE_RUN_H_
