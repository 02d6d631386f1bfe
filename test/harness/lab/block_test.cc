// Blocks of every encoding against std::map.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "harness/lab/block_cursor.h"
#include "harness/lab/block_shape.h"
#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {
namespace {

using harness::TableShape;
using lab::BlockBuilder;
using lab::BlockCursor;
using lab::Encoding;
using lab::kBlockBytes;
using lab::NodeSearch;

class BlockTest : public ::testing::TestWithParam<Encoding> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &region_).ok());
    for (const NodeSearch search : {NodeSearch::kEarlyExit, NodeSearch::kBranchless,
                                    NodeSearch::kAvx2, NodeSearch::kAvx512}) {
      if (lab::NodeSearchKernel(search) != nullptr) {
        searches_.push_back(lab::NodeSearchKernel(search));
      }
    }
  }

  // Fills the block and returns the records that fitted.
  Records Fill(const TableShape& shape, const Records& records) {
    const std::unique_ptr<BlockBuilder> builder = lab::MakeBlockBuilder(GetParam(), shape);
    Records held;
    for (const auto& [key, payload] : records) {
      if (!builder->Fits(key.data())) break;
      builder->Add(key.data(), payload.data());
      held.emplace(key, payload);
    }
    builder->Finish(region_.data());
    return held;
  }

  void ExpectFinds(const TableShape& shape, const Records& held, std::mt19937_64* random) {
    for (const std::string& probe : Probes(held, shape.key_bytes, 200, random)) {
      const auto at = held.lower_bound(probe);
      const auto rank = static_cast<uint32_t>(std::distance(held.begin(), at));
      for (const lab::NodeSearchFn search : searches_) {
        ASSERT_EQ(lab::LowerBoundInBlock(GetParam(), block(), probe.data(), search), rank);
        const char* found = lab::FindInBlock(GetParam(), block(), probe.data(), search);
        ASSERT_EQ(found != nullptr, at != held.end() && at->first == probe);
        if (found != nullptr) {
          ASSERT_EQ(std::string(found, shape.payload_bytes), at->second);
        }
      }
    }
  }

  void ExpectWalks(const TableShape& shape, const Records& held, BlockCursor cursor,
                   Records::const_iterator at) {
    for (; at != held.end(); ++at, cursor.Next()) {
      ASSERT_TRUE(cursor.valid());
      ASSERT_EQ(cursor.rank(), std::distance(held.begin(), at));
      ASSERT_EQ(std::string(cursor.key(), shape.key_bytes), at->first);
      ASSERT_EQ(std::string(cursor.payload(), shape.payload_bytes), at->second);
    }
    EXPECT_FALSE(cursor.valid());
  }

  // Walks from a few records, found by key and by rank.
  void ExpectCursorsWalk(const TableShape& shape, const Records& held, std::mt19937_64* random) {
    for (int i = 0; i < 4; ++i) {
      const auto rank = static_cast<uint32_t>((*random)() % (held.size() + 1));
      BlockCursor by_rank(GetParam(), block());
      by_rank.SeekRank(rank);
      ExpectWalks(shape, held, by_rank, std::next(held.begin(), rank));
      const std::string key = RandomKey(KeyKind::kRandom, shape.key_bytes, random);
      BlockCursor by_key(GetParam(), block());
      by_key.Seek(key.data(), searches_.front());
      ExpectWalks(shape, held, by_key, held.lower_bound(key));
    }
  }

  const char* block() const { return region_.data(); }

  Region region_;
  std::vector<lab::NodeSearchFn> searches_;
};

TEST_P(BlockTest, HoldsWhatAMapHoldsForEveryShapeAndKindOfKey) {
  std::mt19937_64 random(1);
  for (const uint32_t key_bytes : {8u, 16u, 32u}) {
    for (const uint32_t payload_bytes : {8u, 9u, 24u, 100u, 255u, 256u}) {
      for (const KeyKind kind : kKeyKinds) {
        SCOPED_TRACE(testing::Message()
                     << key_bytes << "+" << payload_bytes << ", kind " << static_cast<int>(kind));
        const TableShape shape = {key_bytes, payload_bytes};
        const Records held = Fill(shape, RandomRecords(kind, shape, 2500, &random));
        ExpectFinds(shape, held, &random);
        ExpectCursorsWalk(shape, held, &random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BlockTest, HoldsAnyNumberOfRecords) {
  std::mt19937_64 random(2);
  const TableShape shape = {16, 8};
  for (const size_t count : {1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 255, 256, 257, 300, 513}) {
    SCOPED_TRACE(count);
    const Records held =
        Fill(shape, RandomRecords(count % 2 == 0 ? KeyKind::kRandom : KeyKind::kEqualWords, shape,
                                  count, &random));
    ASSERT_EQ(held.size(), count);
    ExpectFinds(shape, held, &random);
    ExpectCursorsWalk(shape, held, &random);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BlockTest, IsFullWhenNothingMoreFits) {
  std::mt19937_64 random(3);
  for (const uint32_t payload_bytes : {8u, 60u, 256u}) {
    const TableShape shape = {16, payload_bytes};
    const Records held = Fill(shape, RandomRecords(KeyKind::kRandom, shape, 2500, &random));
    // A tree's nodes take some space; the rest, but for a record or two, is records.
    const size_t least_bytes = kBlockBytes - sizeof(lab::NodeWords) - 256;
    EXPECT_GE(held.size() * (shape.record_bytes() + 1), least_bytes) << payload_bytes;
  }
}

TEST(TreeBlockTest, SectionsOfTheUsualRecordsHaveFourToEight) {
  std::mt19937_64 random(4);
  const TableShape shape = {16, 8};
  const std::unique_ptr<BlockBuilder> builder = lab::MakeBlockBuilder(Encoding::kTree, shape);
  for (const auto& [key, payload] : RandomRecords(KeyKind::kRandom, shape, 2500, &random)) {
    if (!builder->Fits(key.data())) break;
    builder->Add(key.data(), payload.data());
  }
  Region region;
  ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &region).ok());
  const uint32_t record_bytes = builder->Finish(region.data());
  EXPECT_EQ(record_bytes, lab::TreeBlock(region.data()).record_bytes());
  lab::TreeBlockHeader header;
  std::memcpy(&header, region.data(), sizeof(header));
  EXPECT_GE(header.section_records, 4);
  EXPECT_LE(header.section_records, 8);
  EXPECT_LE(header.section_count, lab::kMaxSections);
}

INSTANTIATE_TEST_SUITE_P(Encodings, BlockTest, testing::ValuesIn(kEncodings));

}  // namespace
}  // namespace engine_race::test
