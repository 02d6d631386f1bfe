#include "engine_race/task/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine_race/task/task.h"

namespace engine_race {
namespace {

// A queue whose device is the test. Submitted reads complete when the scheduler waits for them, the
// newest first. A read's offset is returned as the number of bytes read.
class FakeQueue final : public io::ReadQueue {
 public:
  struct Record {
    std::vector<size_t> batches;
    std::vector<uint32_t> waits;
  };
  FakeQueue(uint32_t depth, Record* record) : ReadQueue(depth), record_(record) {}

  Status Submit(std::span<const io::ReadRequest> requests, size_t* started) override {
    *started = 0;
    EXPECT_LE(in_flight_ + requests.size(), depth_);
    record_->batches.push_back(requests.size());
    pending_.insert(pending_.end(), requests.begin(), requests.end());
    in_flight_ += static_cast<uint32_t>(requests.size());
    *started = requests.size();
    return Status::Ok();
  }

  Status Wait(uint32_t min_count, std::vector<io::ReadCompletion>* completions) override {
    record_->waits.push_back(min_count);
    for (uint32_t i = 0; i < min_count && !pending_.empty(); ++i) {
      const io::ReadRequest request = pending_.back();
      pending_.pop_back();
      --in_flight_;
      completions->push_back({request.tag, 0, static_cast<uint32_t>(request.offset)});
    }
    return Status::Ok();
  }
  const char* name() const override { return "fake"; }

 private:
  Record* const record_;
  std::vector<io::ReadRequest> pending_;
};

class SchedulerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Scheduler> Make(uint32_t depth, uint32_t batch = Scheduler::kDefaultBatch) {
    return std::make_unique<Scheduler>(std::make_unique<FakeQueue>(depth, &record_), batch);
  }
  static io::ReadRequest At(uint64_t offset) {
    io::ReadRequest request;
    request.offset = offset;
    return request;
  }
  FakeQueue::Record record_;
};

struct Answers {
  std::vector<uint32_t> read_bytes;
  std::vector<int> errors;
};

Task ReadTwice(Scheduler& scheduler, uint64_t offset, Answers* answers) {
  for (int i = 0; i < 2; ++i) {
    io::ReadRequest request;
    request.offset = offset + static_cast<uint64_t>(i);
    const io::ReadCompletion completion = co_await scheduler.Read(request);
    answers->read_bytes.push_back(completion.read_bytes);
    answers->errors.push_back(completion.error);
  }
}

TEST_F(SchedulerTest, GivesEachTaskItsOwnAnswers) {
  const auto scheduler = Make(8);
  std::vector<Answers> answers(100);
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 10 * i, &answers[i])).ok());
  }
  EXPECT_EQ(100u, scheduler->task_count());
  scheduler->RunAll();
  EXPECT_EQ(0u, scheduler->task_count());
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto first = static_cast<uint32_t>(10 * i);
    EXPECT_EQ((std::vector<uint32_t>{first, first + 1}), answers[i].read_bytes);
    EXPECT_EQ((std::vector<int>{0, 0}), answers[i].errors);
  }
}

TEST_F(SchedulerTest, SubmitsInBatchesAndNeverMoreThanTheQueueHolds) {
  const auto scheduler = Make(64, 4);
  std::vector<Answers> answers(200);
  for (Answers& answer : answers) {
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 1, &answer)).ok());
  }
  EXPECT_TRUE(record_.batches.empty()) << "nothing is submitted before the tasks have had their go";
  scheduler->RunAll();
  size_t submitted = 0;
  for (const size_t batch : record_.batches) submitted += batch;
  EXPECT_EQ(400u, submitted);
  EXPECT_EQ(64u, record_.batches.front());
  EXPECT_LT(record_.batches.size(), 200u);
}

TEST_F(SchedulerTest, WaitsForAShareOfWhatIsInFlight) {
  const auto scheduler = Make(64, 16);
  std::vector<Answers> answers(64);
  for (Answers& answer : answers) {
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 1, &answer)).ok());
  }
  scheduler->RunOnce();
  EXPECT_EQ((std::vector<uint32_t>{8}), record_.waits);
  scheduler->RunAll();
  EXPECT_EQ(1u, record_.waits.back());
}

TEST_F(SchedulerTest, PollWaitsForNothing) {
  const auto scheduler = Make(4);
  Answers answers;
  ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 7, &answers)).ok());
  scheduler->Poll();
  EXPECT_EQ((std::vector<size_t>{1}), record_.batches);
  EXPECT_EQ((std::vector<uint32_t>{0}), record_.waits);
  scheduler->RunAll();
  EXPECT_EQ(2u, answers.read_bytes.size());
}

TEST_F(SchedulerTest, FramesAreUsedAgain) {
  const auto scheduler = Make(8);
  Answers answers;
  ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 1, &answers)).ok());
  scheduler->RunAll();
  const uint64_t bytes = scheduler->memory_bytes();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 1, &answers)).ok());
    scheduler->RunAll();
  }
  EXPECT_EQ(bytes, scheduler->memory_bytes());
}

TEST_F(SchedulerTest, ATaskThatIsNeverStartedIsNoLeakAndNotCounted) {
  const auto scheduler = Make(8);
  Answers answers;
  { const Task task = ReadTwice(*scheduler, 1, &answers); }
  EXPECT_EQ(0u, scheduler->task_count());
  EXPECT_TRUE(answers.errors.empty());
}

}  // namespace
}  // namespace engine_race
