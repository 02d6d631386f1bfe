// Walks of iterators with values of other sizes than 4 KiB.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine_race/scan/iterator_pool.h"
#include "test/scan/value_sizes_fixture.h"

namespace engine_race::test {
namespace {

class ValueSizesIteratorTest : public ValueSizesTest {
 protected:
  void Walk(const IteratorOptions& options, bool backwards) {
    Iterator iterator;
    ASSERT_TRUE(pool_->New(options, &iterator).ok());
    std::vector<std::pair<uint64_t, uint64_t>> wanted(store_->model.begin(), store_->model.end());
    if (backwards) std::reverse(wanted.begin(), wanted.end());
    if (backwards) {
      iterator.SeekToLast();
    } else {
      iterator.SeekToFirst();
    }
    for (const auto& [key, version] : wanted) {
      ASSERT_TRUE(iterator.Valid()) << iterator.status().ToString();
      ASSERT_EQ(DecodeKey(iterator.key().data()), key);
      ASSERT_EQ(iterator.value(), ValueOf(key, version, size()));
      if (backwards) {
        iterator.Prev();
      } else {
        iterator.Next();
      }
    }
    EXPECT_FALSE(iterator.Valid());
  }

  std::unique_ptr<RangeReader> ranges_;
  std::unique_ptr<IteratorPool> pool_;
};

TEST_P(ValueSizesIteratorTest, WalksBothWaysShowAllValues) {
  Open(4);
  store_->Fill(RecordCount(3000));
  MakeContext();
  ranges_ = std::make_unique<RangeReader>(*store_->log, *store_->index, store_->options, 32 * kMiB);
  pool_ = std::make_unique<IteratorPool>(ranges_.get());
  for (const uint32_t prefetch_records : {0U, 1U, 2U, 64U}) {
    SCOPED_TRACE(prefetch_records);
    IteratorOptions options;
    options.prefetch_records = prefetch_records;
    Walk(options, /*backwards=*/false);
    Walk(options, /*backwards=*/true);
  }
  ViewRegistry::View view;
  ASSERT_TRUE(store_->index->views().Take(&view).ok());
  {
    const Snapshot snapshot(view);
    ModelVisitor visitor = Visitor();
    const auto visit = [&](std::string_view key, std::string_view value) {
      EXPECT_EQ(value.size(), size());
      visitor(DecodeKey(key.data()), value.data());
    };
    ASSERT_TRUE(pool_->Scan(snapshot, KeyRange(), visit).ok());
    EXPECT_TRUE(visitor.complete()) << visitor.count << ", " << visitor.bad_count;
  }
  pool_.reset();
  ranges_.reset();
}

INSTANTIATE_TEST_SUITE_P(Sizes, ValueSizesIteratorTest, ::testing::ValuesIn(kValueSizes), SizeName);

}  // namespace
}  // namespace engine_race::test
