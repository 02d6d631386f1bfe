// More batches at once than there are intents.
#include "engine_race/log/batch_intents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/log/batch_writer.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kBatches = 20;
constexpr uint32_t kBuckets = 64;
static_assert(format::kBatchIntents < kBatches && 2 * kBatches <= kBuckets);

WriteBatch BatchOverTwo(uint32_t number) {
  WriteBatch batch;
  for (const uint64_t bucket : {2 * number, 2 * number + 1}) {
    const uint64_t key = bucket * (~uint64_t{0} / kBuckets + 1);
    EXPECT_TRUE(batch.Put(KeyOf(key), ValueOf(key, 1)).ok());
  }
  return batch;
}

// The intents stay with the batches that had them. The batches that wait for one are refused.
TEST(BatchIntentsTest, AfterAFailureNoBatchWaitsForAnIntent) {
  const TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_count = kBuckets;
  LogParts parts(options, dir.path());
  BatchWriter batches(&parts.context, &parts.groups);
  const auto all_held = [&] {
    for (uint32_t number = 0; number < 2 * kBatches; ++number) {
      const std::lock_guard<std::mutex> lock(parts.context.buckets[number].mutex);
      if (!parts.context.buckets[number].held) return false;
    }
    return true;
  };
  // The batches that have an intent go on when all others wait for one, and writing has ended.
  std::atomic<uint32_t> inside{0};
  std::atomic<bool> ended{false};
  class Told : public AppendListener {
   public:
    explicit Told(std::function<void()> on_begin) : on_begin_(std::move(on_begin)) {}
    Status Prepare(uint32_t) override { return Status::Ok(); }
    void BeginBatch() noexcept override { on_begin_(); }
    void OnAppend(uint32_t, const KeyRecord&) noexcept override {}

   private:
    const std::function<void()> on_begin_;
  };
  Told told([&] {
    ++inside;
    while (!ended.load()) std::this_thread::yield();
  });
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    BucketCut cut;
    ASSERT_TRUE(parts.reader.CutBucket(bucket, 0, &told, &cut).ok());
  }
  std::array<Code, kBatches> codes{};
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < kBatches; ++number) {
    threads.emplace_back([&, number] {
      const WriteBatch batch = BatchOverTwo(number);
      bool too_large = false;
      codes[number] = batches.Write(batch.records(), nullptr, &too_large).code();
    });
  }
  while (inside.load() < format::kBatchIntents || !all_held()) std::this_thread::yield();
  parts.context.latch.Latch(Status::IOError("a device is gone"));
  ended.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kOk), format::kBatchIntents);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kIOError),
            kBatches - format::kBatchIntents);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) parts.reader.DetachListener(bucket);
}

}  // namespace
}  // namespace engine_race::test
