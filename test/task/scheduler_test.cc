#include "engine_race/task/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine_race/task/task.h"

namespace engine_race {
namespace {

char ByteAt(uint64_t offset) { return static_cast<char>(offset / 64 + 1); }

// A queue whose device is the test. Submitted reads complete when the scheduler waits for them, the
// newest first. A read's offset is returned as the number of bytes read. With a buffer it brings
// bytes that tell their place, as far as the device goes.
class FakeQueue final : public io::ReadQueue {
 public:
  struct Record {
    std::vector<size_t> batches;
    std::vector<uint32_t> waits;
    uint64_t device_bytes = UINT64_MAX;
    uint64_t bad_bytes = 0;  // of the device: reads of them fail
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
      const bool is_bad = request.offset < record_->bad_bytes;
      completions->push_back({request.tag, is_bad ? 5 : 0, is_bad ? 0 : Read(request)});
    }
    return Status::Ok();
  }
  const char* name() const override { return "fake"; }

 private:
  uint32_t Read(const io::ReadRequest& request) const {
    if (request.buffer == nullptr) return static_cast<uint32_t>(request.offset);
    uint32_t read_bytes = 0;
    while (read_bytes < request.size_bytes && request.offset + read_bytes < record_->device_bytes) {
      static_cast<char*>(request.buffer)[read_bytes] = ByteAt(request.offset + read_bytes);
      ++read_bytes;
    }
    return read_bytes;
  }

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
    const auto number = static_cast<uint64_t>(&answer - answers.data());
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 2 * number, &answer)).ok());
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
    const auto number = static_cast<uint64_t>(&answer - answers.data());
    ASSERT_TRUE(scheduler->Spawn(ReadTwice(*scheduler, 2 * number, &answer)).ok());
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

struct BlockRead {
  uint64_t offset = 0;
  uint32_t size_bytes = 0;
  int fd = 0;
  io::ReadCompletion completion = {};
  std::vector<char> buffer = std::vector<char>(size_bytes);

  bool IsRight(uint32_t read_bytes) const {
    if (completion.error != 0 || completion.read_bytes != read_bytes) return false;
    for (uint32_t i = 0; i < size_bytes; ++i) {
      if (buffer[i] != (i < read_bytes ? ByteAt(offset + i) : 0)) return false;
    }
    return true;
  }
};

Task ReadBlocks(Scheduler& scheduler, BlockRead* read) {
  io::ReadRequest request;
  request.fd = read->fd;
  request.offset = read->offset;
  request.size_bytes = read->size_bytes;
  request.buffer = read->buffer.data();
  read->completion = co_await scheduler.Read(request);
}

TEST_F(SchedulerTest, BlocksThatSeveralTasksWantAreReadOnce) {
  const auto scheduler = Make(8);
  // The last two want more than what is gathered, and another file.
  std::vector<BlockRead> reads = {{4096, 8192}, {8192, 4096}, {4096, 4096},
                                  {4096, 8192}, {8192, 8192}, {4096, 4096, 1}};
  for (BlockRead& read : reads) {
    ASSERT_TRUE(scheduler->Spawn(ReadBlocks(*scheduler, &read)).ok());
  }
  scheduler->RunAll();
  EXPECT_EQ((std::vector<size_t>{3}), record_.batches);
  for (const BlockRead& read : reads) EXPECT_TRUE(read.IsRight(read.size_bytes)) << read.offset;
}

TEST_F(SchedulerTest, ThoseThatShareAReadGetWhatItHasOfTheirs) {
  const auto scheduler = Make(8);
  record_.device_bytes = 4096 + 512;
  std::vector<BlockRead> reads = {{0, 12288}, {4096, 4096}, {8192, 4096}};
  for (BlockRead& read : reads) {
    ASSERT_TRUE(scheduler->Spawn(ReadBlocks(*scheduler, &read)).ok());
  }
  scheduler->RunAll();
  EXPECT_EQ((std::vector<size_t>{1}), record_.batches);
  EXPECT_TRUE(reads[0].IsRight(4096 + 512));
  EXPECT_TRUE(reads[1].IsRight(512));
  EXPECT_TRUE(reads[2].IsRight(0));
}

// The first block cannot be read.
TEST_F(SchedulerTest, AFailedReadIsAnsweredToTheTaskThatWantsAllOfIt) {
  const auto scheduler = Make(8);
  record_.bad_bytes = 4096;
  std::vector<BlockRead> reads = {{0, 12288}, {4096, 4096}, {4096, 8192}, {0, 4096}, {8192, 4096}};
  for (BlockRead& read : reads) {
    ASSERT_TRUE(scheduler->Spawn(ReadBlocks(*scheduler, &read)).ok());
  }
  scheduler->RunAll();
  EXPECT_EQ(reads[0].completion.error, 5);
  EXPECT_TRUE(reads[1].IsRight(4096));
  EXPECT_TRUE(reads[2].IsRight(8192));
  EXPECT_EQ(reads[3].completion.error, 5);
  EXPECT_TRUE(reads[4].IsRight(4096));
}

// What it brings may be older than what the second task looked up.
TEST_F(SchedulerTest, AReadThatWasSubmittedIsNotShared) {
  const auto scheduler = Make(8);
  std::vector<BlockRead> reads = {{0, 4096}, {0, 4096}};
  for (BlockRead& read : reads) {
    ASSERT_TRUE(scheduler->Spawn(ReadBlocks(*scheduler, &read)).ok());
    scheduler->Poll();
  }
  scheduler->RunAll();
  EXPECT_EQ((std::vector<size_t>{1, 1}), record_.batches);
  for (const BlockRead& read : reads) EXPECT_TRUE(read.IsRight(4096));
}

}  // namespace
}  // namespace engine_race
