#include "engine_race/copies/view_walk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "test/scan/value_sizes_fixture.h"

namespace engine_race::test {
namespace {

// Takes what a walk of a copy brings.
class CheckingSink : public ViewSink {
 public:
  CheckingSink(const ScanStore& store, std::atomic<uint64_t>* count)
      : store_(store), count_(*count) {}
  uint64_t FirstWanted(uint32_t bucket) const override { return bucket % 2 == 0 ? 0 : 10; }
  Status Take(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) override {
    EXPECT_TRUE(is_first_ || key > last_key_);
    is_first_ = false;
    last_key_ = key;
    if (value != nullptr) {
      const uint32_t size = store_.options.value_bytes;
      EXPECT_EQ(std::string_view(value, size), ValueOf(key, store_.model.at(key), size));
      EXPECT_EQ(value_hash, HashValue(value, size));
    } else {
      EXPECT_EQ(bucket % 2, 1u);
    }
    ++count_;
    return Status::Ok();
  }
  Status Finish(uint32_t) override {
    is_first_ = true;
    return Status::Ok();
  }

 private:
  const ScanStore& store_;
  std::atomic<uint64_t>& count_;
  bool is_first_ = true;
  uint64_t last_key_ = 0;
};

class ViewWalkSizesTest : public ValueSizesTest {};

TEST_P(ViewWalkSizesTest, WalksOfCopiesBringAllValues) {
  Open(2);
  store_->Fill(RecordCount(40'000));
  store_->OpenReader();
  ViewRegistry::View view;
  ASSERT_TRUE(store_->index->views().Take(&view).ok());
  // Eight threads with 4 MiB, and with as little as they can do with.
  for (const uint64_t budget_bytes : {16 * 64 * kMiB, 16 * kMiB}) {
    Options options = store_->options;
    options.memory_budget_bytes = budget_bytes;
    std::atomic<uint64_t> count{0};
    const auto make_sink = [&](std::unique_ptr<ViewSink>* sink) {
      *sink = std::make_unique<CheckingSink>(*store_, &count);
      return Status::Ok();
    };
    bool is_stale = true;
    const Status status =
        WalkView(*store_->log, *store_->index, options, view.version, {}, make_sink, &is_stale);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_FALSE(is_stale);
    EXPECT_EQ(count, store_->model.size());
  }
  ViewRegistry::Release(&view);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ViewWalkSizesTest, ::testing::ValuesIn(kValueSizes), SizeName);

}  // namespace
}  // namespace engine_race::test
