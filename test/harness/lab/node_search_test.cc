#include "harness/lab/node_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace engine_race::lab {
namespace {

constexpr NodeSearch kAll[] = {NodeSearch::kEarlyExit, NodeSearch::kBranchless, NodeSearch::kAvx2,
                               NodeSearch::kAvx512};

// Words as a builder lays them out.
NodeWords NodesOf(const std::vector<uint64_t>& words) {
  NodeWords nodes;
  for (uint32_t section = 0; section < kMaxSections; ++section) {
    nodes.leaves[section / kLeafFanout][section % kLeafFanout] =
        words[std::min<size_t>(section, words.size() - 1)];
  }
  for (uint32_t leaf = 0; leaf < kRootFanout; ++leaf) nodes.root[leaf] = nodes.leaves[leaf][0];
  return nodes;
}

uint32_t Naively(const std::vector<uint64_t>& words, uint64_t word) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < words.size(); ++i) {
    if (words[i] <= word) last = i;
  }
  return last;
}

void ExpectAllAgree(const std::vector<uint64_t>& words, const std::vector<uint64_t>& probes) {
  const NodeWords nodes = NodesOf(words);
  for (const NodeSearch search : kAll) {
    const NodeSearchFn kernel = NodeSearchKernel(search);
    if (kernel == nullptr) continue;  // not on this CPU
    for (const uint64_t probe : probes) {
      ASSERT_EQ(kernel(nodes, static_cast<uint32_t>(words.size()), probe), Naively(words, probe))
          << NodeSearchName(search) << ", " << words.size() << " words, " << probe;
    }
  }
}

// The words themselves, the numbers beside them, and both ends of the range.
std::vector<uint64_t> ProbesFor(const std::vector<uint64_t>& words, std::mt19937_64* random) {
  std::vector<uint64_t> probes = {
      0, 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1, ~uint64_t{0} - 1, ~uint64_t{0}};
  for (const uint64_t word : words) probes.insert(probes.end(), {word - 1, word, word + 1});
  for (int i = 0; i < 50; ++i) probes.push_back((*random)());
  return probes;
}

TEST(NodeSearchTest, KernelsFindWhatTheNaiveSearchFindsForAnyNumberOfWords) {
  std::mt19937_64 random(1);
  for (uint32_t count = 1; count <= kMaxSections; ++count) {
    std::vector<uint64_t> words(count);
    for (uint64_t& word : words) word = random();
    std::sort(words.begin(), words.end());
    ExpectAllAgree(words, ProbesFor(words, &random));
  }
}

TEST(NodeSearchTest, TheLastOfEqualWordsIsFound) {
  std::mt19937_64 random(2);
  for (uint32_t count = 1; count <= kMaxSections; ++count) {
    std::vector<uint64_t> words(count);
    for (uint64_t& word : words) word = random() % 5 + 10;
    std::sort(words.begin(), words.end());
    ExpectAllAgree(words, ProbesFor(words, &random));
    ExpectAllAgree(std::vector<uint64_t>(count, 7), {6, 7, 8});
  }
}

TEST(NodeSearchTest, WordsOfAllZerosAndOnesAreWordsLikeOthers) {
  std::mt19937_64 random(3);
  for (const uint32_t count : {1u, 2u, 8u, 9u, 127u, 128u}) {
    std::vector<uint64_t> words(count, 0);
    ExpectAllAgree(words, {0, 1, ~uint64_t{0}});
    std::fill(words.begin(), words.end(), ~uint64_t{0});
    ExpectAllAgree(words, {0, ~uint64_t{0} - 1, ~uint64_t{0}});
    for (uint32_t i = 0; i < count; ++i) words[i] = i < count / 2 ? 0 : ~uint64_t{0};
    ExpectAllAgree(words, ProbesFor(words, &random));
  }
}

TEST(NodeSearchTest, AKernelNeedsEveryFeatureThatItsFileIsCompiledFor) {
  EXPECT_EQ(BestNodeSearch({}), NodeSearch::kBranchless);
  EXPECT_EQ(BestNodeSearch({.avx2 = true}), NodeSearch::kAvx2);
  const CpuFeatures all = {.avx2 = true, .avx512f = true, .avx512bw = true, .avx512vl = true};
  EXPECT_EQ(BestNodeSearch(all), NodeSearch::kAvx512);
  for (bool CpuFeatures::*const feature :
       {&CpuFeatures::avx512f, &CpuFeatures::avx512bw, &CpuFeatures::avx512vl}) {
    CpuFeatures lacking = all;
    lacking.*feature = false;
    EXPECT_EQ(BestNodeSearch(lacking), NodeSearch::kAvx2);
    EXPECT_EQ(NodeSearchKernel(NodeSearch::kAvx512, lacking), nullptr);
  }
  CpuFeatures old = all;
  old.avx2 = false;
  EXPECT_EQ(BestNodeSearch(old), NodeSearch::kBranchless);
}

TEST(NodeSearchTest, TheDefaultRunsHere) {
  EXPECT_NE(NodeSearchKernel(BestNodeSearch()), nullptr);
  EXPECT_NE(NodeSearchKernel(NodeSearch::kEarlyExit), nullptr);
  EXPECT_NE(NodeSearchKernel(NodeSearch::kBranchless), nullptr);
}

}  // namespace
}  // namespace engine_race::lab
