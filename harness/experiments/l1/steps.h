// The steps from a cache of blocks to direct pointers, as settings of tables. Each contender of a
// comparison is one step.
//
// Values; thread-safe.
#ifndef HARNESS_EXPERIMENTS_L1_STEPS_H_
#define HARNESS_EXPERIMENTS_L1_STEPS_H_

#include <optional>
#include <span>
#include <string_view>

#include "harness/lab/block_shape.h"
#include "harness/lab/node_search.h"
#include "harness/lab/table.h"

namespace engine_race::harness {

// The levels between the root and a block of records that are reached by pointer.
enum class L1Reach : uint8_t { kNone, kExtents, kIndexes, kAll };

struct L1Step {
  const char* name;
  lab::Encoding encoding;
  L1Reach reach;
  std::optional<lab::NodeSearch> search = {};  // none: the best one on this CPU
  lab::Protection protection = lab::Protection::kEpoch;

  // Whether this CPU has the step's instructions.
  bool available() const;
  lab::TableOptions options() const;
};

inline constexpr char kBaselineStep[] = "baseline";
inline constexpr char kEncodingStep[] = "tree";
inline constexpr char kSwizzledStep[] = "swizzled";
inline constexpr char kCountedStep[] = "swizzled, counted";
inline constexpr char kRestartPointerStep[] = "baseline by pointer";

// All steps, in the order in which they build on one another.
std::span<const L1Step> AllL1Steps();
// The step of this name, which must exist.
const L1Step& L1StepNamed(std::string_view name);

// The steps of the ladder: each adds one change to the step before it.
std::span<const char* const> L1Ladder();
// The four searches of a tree, through the cache or by pointer: scalar ones first.
inline constexpr uint32_t kScalarSearches = 2;
std::span<const char* const> L1Searches(bool by_pointer);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_STEPS_H_
