#include "harness/experiments/l1/steps.h"

#include <algorithm>
#include <cassert>

namespace engine_race::harness {

using lab::Encoding;
using lab::NodeSearch;
using lab::NodeSearchKernel;
using lab::Protection;
using lab::Reach;
using lab::TableOptions;

namespace {

constexpr L1Step kSteps[] = {
    {kBaselineStep, Encoding::kRestart, L1Reach::kNone},
    {"square", Encoding::kSquare, L1Reach::kNone},
    {kEncodingStep, Encoding::kTree, L1Reach::kNone},
    {"tree, early exit", Encoding::kTree, L1Reach::kNone, NodeSearch::kEarlyExit},
    {"tree, branchless", Encoding::kTree, L1Reach::kNone, NodeSearch::kBranchless},
    {"tree, AVX2", Encoding::kTree, L1Reach::kNone, NodeSearch::kAvx2},
    {"tree, AVX-512", Encoding::kTree, L1Reach::kNone, NodeSearch::kAvx512},
    {"extents by pointer", Encoding::kTree, L1Reach::kExtents},
    {"indexes by pointer", Encoding::kTree, L1Reach::kIndexes},
    {kSwizzledStep, Encoding::kTree, L1Reach::kAll},
    {"swizzled, early exit", Encoding::kTree, L1Reach::kAll, NodeSearch::kEarlyExit},
    {"swizzled, branchless", Encoding::kTree, L1Reach::kAll, NodeSearch::kBranchless},
    {"swizzled, AVX2", Encoding::kTree, L1Reach::kAll, NodeSearch::kAvx2},
    {"swizzled, AVX-512", Encoding::kTree, L1Reach::kAll, NodeSearch::kAvx512},
    {kCountedStep, Encoding::kTree, L1Reach::kAll, {}, Protection::kCount},
    {kRestartPointerStep, Encoding::kRestart, L1Reach::kAll}};

constexpr const char* kLadder[] = {kBaselineStep,        "square",
                                   kEncodingStep,        "extents by pointer",
                                   "indexes by pointer", kSwizzledStep};
constexpr const char* kCacheSearches[] = {"tree, early exit", "tree, branchless", "tree, AVX2",
                                          "tree, AVX-512"};
constexpr const char* kPointerSearches[] = {"swizzled, early exit", "swizzled, branchless",
                                            "swizzled, AVX2", "swizzled, AVX-512"};

Reach ReachOf(bool by_pointer) { return by_pointer ? Reach::kPointer : Reach::kCache; }

}  // namespace

bool L1Step::available() const { return !search || NodeSearchKernel(*search) != nullptr; }

TableOptions L1Step::options() const {
  return {.encoding = encoding,
          .search = search ? NodeSearchKernel(*search) : nullptr,
          .extents = ReachOf(reach >= L1Reach::kExtents),
          .indexes = ReachOf(reach >= L1Reach::kIndexes),
          .records = ReachOf(reach >= L1Reach::kAll),
          .protection = protection};
}

std::span<const L1Step> AllL1Steps() { return kSteps; }

const L1Step& L1StepNamed(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                         [&](const L1Step& step) { return step.name == name; });
  assert(found != std::end(kSteps));
  return *found;
}

std::span<const char* const> L1Ladder() { return kLadder; }

std::span<const char* const> L1Searches(bool by_pointer) {
  return by_pointer ? std::span<const char* const>(kPointerSearches) : kCacheSearches;
}

}  // namespace engine_race::harness
