#include "harness/lab/tree_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {
namespace {

using ::harness::TableShape;
using ::lab::BlockBuilder;
using ::lab::kBlockBytes;
using ::lab::kMaxSections;
using ::lab::kTreeEncoding;
using ::lab::NodeSearch;
using ::lab::NodeSearchFn;
using ::lab::TreeBlock;
using ::lab::TreeBlockHeader;

// The searches that this CPU has.
std::vector<NodeSearchFn> Searches() {
  std::vector<NodeSearchFn> searches;
  for (const NodeSearch search :
       {NodeSearch::kEarlyExit, NodeSearch::kBranchless, NodeSearch::kAvx2, NodeSearch::kAvx512}) {
    if (::lab::NodeSearchKernel(search) != nullptr)
      searches.push_back(::lab::NodeSearchKernel(search));
  }
  return searches;
}

// Fills a block with as many of the records as fit, and returns those.
Records Fill(const TableShape& shape, const Records& records, Region* block) {
  EXPECT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, block).ok());
  const std::unique_ptr<BlockBuilder> builder = kTreeEncoding.make_builder(shape);
  Records held;
  for (const auto& [key, payload] : records) {
    if (!builder->Fits(key.data())) break;
    builder->Add(key.data(), payload.data());
    held.emplace(key, payload);
  }
  const uint32_t record_bytes = builder->Finish(block->data());
  EXPECT_EQ(record_bytes, TreeBlock(block->data()).record_bytes());
  return held;
}

TEST(TreeBlockTest, FindsWhatAMapFindsByEverySearch) {
  std::mt19937_64 random(1);
  const std::vector<NodeSearchFn> searches = Searches();
  for (const KeyKind kind : kKeyKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const TableShape shape = {16, 24};
    Region block;
    const Records held = Fill(shape, RandomRecords(kind, shape, 2500, &random), &block);
    const TreeBlock tree(block.data());
    ASSERT_EQ(tree.record_count(), held.size());
    for (const std::string& probe : Probes(held, shape.key_bytes, 200, &random)) {
      const auto at = held.lower_bound(probe);
      for (const NodeSearchFn search : searches) {
        ASSERT_EQ(tree.LowerBound(probe.data(), search), std::distance(held.begin(), at));
        const char* const found = tree.Find(probe.data(), search);
        ASSERT_EQ(found != nullptr, at != held.end() && at->first == probe);
        if (found != nullptr) {
          ASSERT_EQ(std::string(found, shape.payload_bytes), at->second);
        }
      }
    }
  }
}

// The steps of a search lead to the section that Find searches.
TEST(TreeBlockTest, ASearchInStepsFindsTheSame) {
  std::mt19937_64 random(2);
  const TableShape shape = {16, 8};
  Region block;
  const Records held = Fill(shape, RandomRecords(KeyKind::kRandom, shape, 2500, &random), &block);
  const TreeBlock tree(block.data());
  for (const std::string& probe : Probes(held, shape.key_bytes, 200, &random)) {
    tree.FetchRoot();
    const uint32_t section = tree.FetchSection(probe.data(), tree.FetchLeaf(probe.data()));
    const char* const found = tree.Find(
        probe.data(), [section](const ::lab::NodeWords&, uint32_t, uint64_t) { return section; });
    const auto at = held.find(probe);
    ASSERT_EQ(found != nullptr, at != held.end());
    if (found != nullptr) {
      ASSERT_EQ(std::string(found, shape.payload_bytes), at->second);
    }
  }
}

TEST(TreeBlockTest, SectionsOfTheUsualRecordsHaveFourToEight) {
  std::mt19937_64 random(4);
  const TableShape shape = {16, 8};
  const std::unique_ptr<BlockBuilder> builder = kTreeEncoding.make_builder(shape);
  for (const auto& [key, payload] : RandomRecords(KeyKind::kRandom, shape, 2500, &random)) {
    if (!builder->Fits(key.data())) break;
    builder->Add(key.data(), payload.data());
  }
  Region region;
  ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &region).ok());
  builder->Finish(region.data());
  TreeBlockHeader header;
  std::memcpy(&header, region.data(), sizeof(header));
  EXPECT_GE(header.section_records, 4);
  EXPECT_LE(header.section_records, 8);
  EXPECT_LE(header.section_count, kMaxSections);
}

}  // namespace
}  // namespace engine_race::test
