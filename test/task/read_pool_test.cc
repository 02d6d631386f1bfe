// The pool over a real log, with rings and threads that fail. The order of events on its only
// worker shows whose turn it is.
#include "engine_race/task/read_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/guarded.h"
#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/task/read_pool_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kTurn = ReadTurns::kTurnJobs;
// The rounds after which a loop that might not end is ended.
constexpr uint64_t kFarTooMany = 100000;

TEST_F(ReadPoolTest, PostedReadsWithoutEndLeaveABatchItsTurn) {
  Open(1);
  std::atomic<uint64_t> answered{0};
  std::atomic<uint64_t> answered_before_batch{kFarTooMany};
  on_message_ = [&](std::string_view) { answered_before_batch = answered.load(); };
  std::latch entered(1);
  std::latch leave(1);
  std::string first_value;
  ASSERT_TRUE(Post(0, &first_value, [&](const Status&) {
                entered.count_down();
                leave.wait();
              }).ok());
  entered.wait();
  // The worker is held up now, so all later reads wait, in this order.
  std::vector<std::string> values(40);
  std::function<void(size_t)> renew = [&](size_t i) {
    ASSERT_TRUE(Post(0, &values[i], [&, i](const Status&) {
                  if (++answered < kFarTooMany && answered_before_batch == kFarTooMany) renew(i);
                }).ok());
  };
  for (size_t i = 0; i < values.size(); ++i) renew(i);
  std::thread caller([this] { ReadKeys("bad", 1); });
  WaitUntilWaiting(2);
  leave.count_down();
  caller.join();
  pool_->Close();
  EXPECT_LE(answered_before_batch, 3 * kTurn) << "one source ahead, one worker";
}

TEST_F(ReadPoolTest, AHugeBatchLeavesAPostedReadItsTurn) {
  Open(1);
  std::string value;
  std::atomic<bool> done{false};
  uint64_t taken = 0;
  uint64_t taken_before_posted = 0;
  const std::thread::id caller = std::this_thread::get_id();
  on_message_ = [&](std::string_view) {
    ASSERT_EQ(std::this_thread::get_id(), caller);
    if (taken++ == 0) {
      ASSERT_TRUE(Post(0, &value, [&](const Status& status) {
                    EXPECT_TRUE(status.ok());
                    EXPECT_NE(std::this_thread::get_id(), caller);
                    done = true;
                  }).ok());
    }
    // The value is staged, so the turn reads it at once.
    if (value.empty()) taken_before_posted = taken;
  };
  ReadKeys("bad", 50 * kTurn);
  EXPECT_EQ(taken, 50 * kTurn);
  pool_->Close();
  EXPECT_TRUE(done);
  EXPECT_TRUE(value == ValueOf(0, 1));
  EXPECT_LE(taken_before_posted, kTurn) << "no source ahead, one worker";
}

TEST_F(ReadPoolTest, AHugeBatchLeavesOtherBatchesTheirTurns) {
  Open(1);
  constexpr size_t kOthers = 3;
  std::vector<std::thread> others;
  uint64_t taken = 0;
  std::vector<uint64_t> taken_before;
  on_message_ = [&](std::string_view message) {
    if (message.find("not 3") == std::string_view::npos) {
      taken_before.push_back(taken);
      return;
    }
    if (taken++ > 0) return;
    for (size_t i = 0; i < kOthers; ++i) {
      others.emplace_back([this] { ReadKeys("other", 1); });
      WaitUntilWaiting(static_cast<uint32_t>(i + 1));
    }
  };
  ReadKeys("bad", 50 * kTurn);
  for (std::thread& other : others) other.join();
  ASSERT_EQ(taken_before.size(), kOthers);
  // The batches themselves have one key each.
  for (size_t i = 0; i < kOthers; ++i) EXPECT_LE(taken_before[i], (i + 1) * kTurn) << i;
}

// Short batches, one after another from more callers than workers: a posted read still gets its
// turn.
TEST_F(ReadPoolTest, ShortBatchesWithoutEndLeaveAPostedReadItsTurn) {
  Open(1);
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> taken_before_posted{0};
  std::atomic<bool> posted{false};
  std::string value;
  on_message_ = [&](std::string_view) {
    if (++taken == 100) {
      ASSERT_TRUE(Post(0, &value, [&](const Status&) { posted = true; }).ok());
    }
    // There is one worker, so messages come one by one, on the thread that also fills the value.
    if (taken >= 100 && value.empty()) ++taken_before_posted;
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!posted && taken < kFarTooMany) ReadKeys("bad", 1);
    });
  }
  for (std::thread& caller : callers) caller.join();
  pool_->Close();
  EXPECT_TRUE(posted);
  EXPECT_LE(taken_before_posted, (2 * 4 + 1) * kTurn);
}

TEST_F(ReadPoolTest, AClosedPoolRefusesWithoutCallingBack) {
  Open(1);
  std::latch entered(1);
  std::atomic<uint64_t> answered{0};
  std::vector<std::unique_ptr<std::string>> values;
  Status refused;
  std::string first_value;
  ASSERT_TRUE(Post(0, &first_value, [&](const Status&) {
                entered.count_down();
                // Until the pool is being closed, which it is sooner or later.
                while (refused.ok()) {
                  std::this_thread::yield();
                  values.push_back(std::make_unique<std::string>());
                  refused = Post(0, values.back().get(), [&](const Status& status) {
                    EXPECT_TRUE(status.ok());
                    ++answered;
                  });
                }
              }).ok());
  entered.wait();
  pool_->Close();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.ToString().find("closed"), std::string::npos);
  EXPECT_EQ(answered + 1, values.size()) << "all but the refused one";
  for (size_t i = 0; i < answered; ++i) ASSERT_TRUE(*values[i] == ValueOf(0, 1));
  EXPECT_EQ(Post(0, &first_value, nullptr).code(), Code::kInvalidArgument);
}

TEST_F(ReadPoolTest, AReadIsDoneAtOnceWhereAThreadIsRefused) {
  Open(1);
  for (uint64_t passed_count = 0; passed_count < 4; ++passed_count) {
    std::string value(kValueBytes, ' ');
    auto read = std::make_unique<PostedRead>();
    read->value = &value;
    std::atomic<bool> done{false};
    read->done = [&done](const Status& status) {
      EXPECT_TRUE(status.ok());
      done = true;
    };
    {
      const RefuseMemory refuse(passed_count);
      ASSERT_TRUE(pool_->Post(std::move(read)).ok());
    }
    while (!done) std::this_thread::yield();
    EXPECT_TRUE(value == ValueOf(0, 1));
  }
}

// Fails reads of extents. After each, one request for memory of its thread is refused.
class FailingBlocks : public SystemCallHook {
 public:
  explicit FailingBlocks(uint64_t passed_count) : passed_count_(passed_count) {}
  long OnCall(SystemCall* call) override {
    const bool is_block = call->kind == CallKind::kPread && IsIndexFile(call->fd);
    // A loop that might not end is ended.
    if (!is_block || ++read_count > kMaxReads) return call->Proceed();
    refuse_.emplace(passed_count_);
    errno = EIO;
    return -1;
  }
  static constexpr uint64_t kMaxReads = 100;
  std::atomic<uint64_t> read_count{0};

 private:
  // Without memory of operator new, which may be refused to this thread.
  static bool IsIndexFile(int fd) {
    std::array<char, 64> link;
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
    std::array<char, PATH_MAX> path;
    const ssize_t length = ::readlink(link.data(), path.data(), path.size());
    const std::string_view name(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
    return name.find("/key_index_") != std::string_view::npos;
  }

  const uint64_t passed_count_;
  std::optional<RefuseMemory> refuse_;
};

TEST_F(ReadPoolTest, ABlockThatCannotBeReadWithoutMemoryEndsTheRead) {
  options_.index_memory_bytes = 0;
  options_.index_idle_ms = 0;
  const std::string key = KeyOf(0);
  const std::string_view keys[] = {key};
  std::string values[1];
  for (const bool by_task : {true, false}) {
    bool was_refused = false;
    Status status(Code::kOutOfMemory, {});
    for (uint64_t passed_count = 0; !status.ok(); ++passed_count) {
      SCOPED_TRACE(passed_count);
      ASSERT_LT(passed_count, 1000u);
      pool_.reset();
      index_.reset();
      log_.reset();
      ASSERT_NO_FATAL_FAILURE(Open(1));
      std::vector<Status> statuses(1);
      FailingBlocks failing(passed_count);
      {
        const ScopedHook hook(&failing);
        if (by_task) {
          pool_->MultiRead(keys, values, statuses);
          status = statuses[0];
        } else {
          status = Guarded([&] { return reader_->Read(0, &values[0]); });
        }
      }
      EXPECT_GT(failing.read_count, 0u);
      EXPECT_LT(failing.read_count, 10u) << "the read began again and again";
      EXPECT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << status.ToString();
      was_refused |= !status.ok();
    }
    EXPECT_TRUE(was_refused);
    EXPECT_TRUE(values[0] == ValueOf(0, 1));
  }
}

// Makes waits for reads fail on some of the libaio queues, chosen by their numbers from 1.
class FailingQueues : public SystemCallHook {
 public:
  explicit FailingQueues(std::function<bool(uint64_t queue)> fails) : fails_(std::move(fails)) {}
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread) ++pread_count;
    if (call->kind == CallKind::kIoSetup) ++queue_count;
    if (call->kind == CallKind::kIoGetEvents && fails_(queue_count)) {
      errno = EIO;
      return -1;
    }
    return call->Proceed();
  }
  std::atomic<uint64_t> pread_count{0};
  std::atomic<uint64_t> queue_count{0};

 private:
  const std::function<bool(uint64_t)> fails_;
};

class FailedQueueTest : public ReadPoolTest {
 protected:
  static constexpr uint64_t kRecords = 400;

  FailedQueueTest() {
    on_message_ = [this](std::string_view message) {
      if (message.find("from now on") != std::string_view::npos) switches_.emplace_back(message);
    };
  }

  void OpenAll() { Open(kRecords, IoBackend::kLibaio); }

  // Reads every record.
  void ReadAll(FailingQueues* hook) {
    std::vector<std::string> bytes;
    for (uint64_t key = 0; key < kRecords; ++key) bytes.push_back(KeyOf(key));
    const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
    std::vector<std::string> values(kRecords);
    std::vector<Status> statuses(kRecords);
    {
      const ScopedHook scoped(hook);
      pool_->MultiRead(keys, values, statuses);
    }
    for (uint64_t key = 0; key < kRecords; ++key) {
      EXPECT_TRUE(statuses[key].ok()) << key << ": " << statuses[key].ToString();
      EXPECT_TRUE(values[key] == ValueOf(key, 1)) << key;
    }
  }

  std::vector<std::string> switches_;
};

TEST_F(FailedQueueTest, IsReplacedAndItsReadsAreDoneAgain) {
  OpenAll();
  FailingQueues hook([](uint64_t queue) { return queue == 1; });
  ReadAll(&hook);
  EXPECT_GT(hook.pread_count, 0U);
  EXPECT_LE(hook.pread_count, options_.tasks_per_worker) << "only what it had in flight";
}

TEST_F(FailedQueueTest, TheNextBackEndIsUsedOnceThreeInARowHaveFailed) {
  OpenAll();
  FailingQueues hook([](uint64_t) { return true; });
  ReadAll(&hook);
  EXPECT_EQ(hook.queue_count, 3U);
  ASSERT_EQ(switches_.size(), 1U);
  EXPECT_NE(switches_[0].find("libaio in a row have failed: reads go through psync"),
            std::string::npos)
      << switches_[0];
  ReadAll(&hook);
  EXPECT_EQ(hook.queue_count, 3U) << "for good";
  EXPECT_EQ(switches_.size(), 1U);
}

TEST_F(FailedQueueTest, TheBackEndStaysWhereOneQueueInThreeReads) {
  OpenAll();
  std::atomic<uint64_t> good_queue{0};
  FailingQueues hook([&good_queue](uint64_t queue) { return queue != good_queue; });
  for (int i = 1; i <= 4; ++i) {
    // Now the queue that was good fails as well, and two more.
    good_queue += 3;
    ReadAll(&hook);
    EXPECT_EQ(hook.queue_count, good_queue);
  }
  EXPECT_TRUE(switches_.empty());
}

}  // namespace
}  // namespace engine_race::test
