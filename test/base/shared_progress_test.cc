// A call's progress: told by the caller's thread alone, and no further work once it is cancelled.
#include "engine_race/base/shared_progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"

namespace engine_race {
namespace {

// Keeps a broken test from hanging.
constexpr std::chrono::seconds kLimit{60};

bool Comes(std::shared_future<void> event) {
  return event.wait_for(kLimit) == std::future_status::ready;
}

TEST(SharedProgressTest, TheCallersThreadTellsWhatOthersHaveDoneWhileItWaits) {
  const std::thread::id caller = std::this_thread::get_id();
  std::promise<void> told;
  std::shared_future<void> is_told = told.get_future().share();
  std::vector<uint64_t> done_counts;
  const ProgressFn on_progress = [&](uint64_t done_count, uint64_t most_count) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(most_count, 30u);
    done_counts.push_back(done_count);
    if (done_count == 10) told.set_value();
    return true;
  };
  SharedProgress progress(on_progress, 30);
  const auto work = [&](uint32_t worker) {
    // The caller's own share is empty.
    if (worker == 0) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(progress.Add(10));
    EXPECT_TRUE(Comes(is_told));
    return progress.Add(20);
  };
  EXPECT_TRUE(RunParallel("er-test", 2, work, &progress).ok());
  EXPECT_EQ(done_counts, (std::vector<uint64_t>{10, 30}));
}

TEST(SharedProgressTest, EachThreadOfACancelledCallEndsBehindItsPiece) {
  std::promise<void> cancelled;
  std::shared_future<void> is_cancelled = cancelled.get_future().share();
  uint64_t call_count = 0;
  const ProgressFn on_progress = [&](uint64_t, uint64_t) { return ++call_count < 3; };
  SharedProgress progress(on_progress, 100);
  std::vector<uint64_t> piece_counts(4);
  const auto work = [&](uint32_t worker) {
    // The others do their piece once the caller's thread knows.
    if (worker != 0) {
      EXPECT_TRUE(Comes(is_cancelled));
    }
    Status status;
    while (status.ok() && piece_counts[worker] < 100) {
      ++piece_counts[worker];
      status = progress.Add(1);
    }
    if (worker == 0) cancelled.set_value();
    return status;
  };
  EXPECT_EQ(RunParallel("er-test", 4, work, &progress).code(), Code::kIncomplete);
  EXPECT_EQ(piece_counts, (std::vector<uint64_t>{3, 1, 1, 1}));
  EXPECT_EQ(call_count, 3u);
  EXPECT_EQ(progress.Tell().code(), Code::kIncomplete);
  EXPECT_EQ(call_count, 3u) << "it is asked no more";
}

TEST(SharedProgressTest, ACallThatIsCancelledWhenAllIsDoneIsIncompleteToo) {
  const ProgressFn on_progress = [](uint64_t, uint64_t) { return false; };
  SharedProgress progress(on_progress, 1);
  const auto work = [&](uint32_t worker) {
    // The other thread is not told any more.
    return worker == 0 ? Status::Ok() : progress.Add(1);
  };
  EXPECT_EQ(RunParallel("er-test", 2, work, &progress).code(), Code::kIncomplete);
}

TEST(SharedProgressTest, CountsWithoutAFunctionAndTellsNoMoreThanThereIs) {
  const ProgressFn none;
  SharedProgress silent(none, 5);
  EXPECT_TRUE(silent.Add(3).ok());
  EXPECT_TRUE(silent.Add(4).ok());
  EXPECT_EQ(silent.done_count(), 7u);
  uint64_t told = 0;
  const ProgressFn on_progress = [&](uint64_t done_count, uint64_t) {
    told = done_count;
    return true;
  };
  SharedProgress progress(on_progress, 5);
  EXPECT_TRUE(progress.Add(7).ok());
  EXPECT_EQ(told, 5u);
}

}  // namespace
}  // namespace engine_race
