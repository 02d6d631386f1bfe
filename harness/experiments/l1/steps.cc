#include "harness/experiments/l1/steps.h"

#include <algorithm>
#include <cassert>

namespace harness {

using lab::Encoding;
using lab::NodeSearch;
using lab::NodeSearchKernel;
using lab::Protection;
using lab::Reach;
using lab::TableOptions;

namespace {

constexpr L1Step kSteps[] = {
    {kBaselineStep, "restart points, everything through the cache", Encoding::kRestart,
     L1Reach::kNone},
    {"square", "a tree as wide as the root of its run heads", Encoding::kSquare, L1Reach::kNone},
    {kEncodingStep, "a tree of 16 times 8, the best search", Encoding::kTree, L1Reach::kNone},
    {"tree, early exit", "its scalar search, which branches", Encoding::kTree, L1Reach::kNone,
     Protection::kEpoch, true, NodeSearch::kEarlyExit},
    {"tree, branchless", "its scalar search without branches", Encoding::kTree, L1Reach::kNone,
     Protection::kEpoch, true, NodeSearch::kBranchless},
    {"tree, AVX2", "its search in registers of 32 bytes", Encoding::kTree, L1Reach::kNone,
     Protection::kEpoch, true, NodeSearch::kAvx2},
    {"tree, AVX-512", "its search in registers of 64 bytes", Encoding::kTree, L1Reach::kNone,
     Protection::kEpoch, true, NodeSearch::kAvx512},
    {"extents by pointer", "and extents by pointer", Encoding::kTree, L1Reach::kExtents},
    {"indexes by pointer", "and index blocks by pointer", Encoding::kTree, L1Reach::kIndexes},
    {kSwizzledStep, "and blocks of records by pointer: everything", Encoding::kTree, L1Reach::kAll},
    {"swizzled, early exit", "the scalar search, which branches", Encoding::kTree, L1Reach::kAll,
     Protection::kEpoch, true, NodeSearch::kEarlyExit},
    {"swizzled, branchless", "the scalar search without branches", Encoding::kTree, L1Reach::kAll,
     Protection::kEpoch, true, NodeSearch::kBranchless},
    {"swizzled, AVX2", "the search in registers of 32 bytes", Encoding::kTree, L1Reach::kAll,
     Protection::kEpoch, true, NodeSearch::kAvx2},
    {"swizzled, AVX-512", "the search in registers of 64 bytes", Encoding::kTree, L1Reach::kAll,
     Protection::kEpoch, true, NodeSearch::kAvx512},
    {kCountedStep, "readers count themselves in the frames", Encoding::kTree, L1Reach::kAll,
     Protection::kCount},
    {kRestartPointerStep, "restart points, everything by pointer", Encoding::kRestart,
     L1Reach::kAll}};

constexpr const char* kLadder[] = {kBaselineStep,        "square",
                                   kEncodingStep,        "extents by pointer",
                                   "indexes by pointer", kSwizzledStep};
constexpr const char* kCacheSearches[] = {"tree, early exit", "tree, branchless", "tree, AVX2",
                                          "tree, AVX-512"};
constexpr const char* kPointerSearches[] = {"swizzled, early exit", "swizzled, branchless",
                                            "swizzled, AVX2", "swizzled, AVX-512"};

Reach ReachOf(bool by_pointer) { return by_pointer ? Reach::kPointer : Reach::kCache; }

}  // namespace

bool L1Step::available() const { return !has_search || NodeSearchKernel(search) != nullptr; }

TableOptions L1Step::options() const {
  TableOptions options;
  if (has_search) options.search = NodeSearchKernel(search);
  options.extents = ReachOf(reach >= L1Reach::kExtents);
  options.indexes = ReachOf(reach >= L1Reach::kIndexes);
  options.records = ReachOf(reach >= L1Reach::kAll);
  options.protection = protection;
  return options;
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

}  // namespace harness
