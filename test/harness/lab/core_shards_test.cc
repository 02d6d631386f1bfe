// Core shards: answers are those of a map, whichever worker has a table. Idle workers sleep.
#include "harness/lab/core_shards.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"
#include "test/eventually.h"
#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {
namespace {

using harness::kNoLimitSeconds;
using harness::TableShape;
using harness::TimedThread;
using lab::CoreShards;
using lab::CoreShardsOptions;
using lab::ShardGet;
using lab::ShardWorker;

class CoreShardsTest : public ::testing::Test {
 protected:
  static constexpr TableShape kShape = {16, 40};

  void MakeTables(uint32_t count, uint32_t record_count) {
    std::mt19937_64 random(count);
    for (uint32_t i = 0; i < count; ++i) {
      options_.names.push_back("table" + std::to_string(i));
      tables_.push_back(RandomRecords(KeyKind::kRandom, kShape, record_count, &random));
      ASSERT_TRUE(dir_.Build(options_.names[i], kShape, lab::Encoding::kTree, tables_[i]).ok());
    }
    options_.frame_count = 200;
    options_.shape = kShape;
    options_.dir_fd = dir_.fd();
  }
  std::unique_ptr<CoreShards> Load(uint32_t worker_count) {
    options_.worker_count = worker_count;
    std::unique_ptr<CoreShards> shards;
    const Status loaded = CoreShards::Load(options_, &shards);
    EXPECT_TRUE(loaded.ok()) << loaded.ToString();
    return shards;
  }
  // Runs `work` on every worker.
  static Status Run(CoreShards* shards,
                    const std::function<Status(uint32_t number, ShardWorker* worker)>& work) {
    return shards->Run(
        kNoLimitSeconds,
        [&](uint32_t number, ShardWorker* worker, TimedThread*) { return work(number, worker); },
        /*point=*/nullptr);
  }

  // Asks for `count` keys of any table, of which one in eight has no record. Describes the first
  // wrong answer; empty when there is none.
  std::string Ask(ShardWorker* worker, uint32_t count, std::mt19937_64* random) const {
    std::vector<ShardGet> gets(count);
    std::vector<std::string> keys;
    std::vector<std::string> payloads(count, std::string(kShape.payload_bytes, '?'));
    for (uint32_t i = 0; i < count; ++i) {
      gets[i].table = static_cast<uint32_t>((*random)() % tables_.size());
      const std::string any = RandomKey(KeyKind::kRandom, kShape.key_bytes, random);
      const auto near = tables_[gets[i].table].lower_bound(any);
      const bool is_there = (*random)() % 8 != 0 && near != tables_[gets[i].table].end();
      keys.push_back(is_there ? near->first : any);
    }
    for (uint32_t i = 0; i < count; ++i) {
      gets[i].key = keys[i].data();
      gets[i].payload = payloads[i].data();
    }
    worker->Get(gets);
    for (uint32_t i = 0; i < count; ++i) {
      const auto known = tables_[gets[i].table].find(keys[i]);
      const bool is_there = known != tables_[gets[i].table].end();
      if (gets[i].status.code() != (is_there ? Code::kOk : Code::kNotFound)) {
        return "get " + std::to_string(i) + ": " + gets[i].status.ToString();
      }
      if (is_there && payloads[i] != known->second) return "another payload";
    }
    return {};
  }

  const TableDir dir_;
  std::vector<Records> tables_;
  CoreShardsOptions options_;
};

TEST_F(CoreShardsTest, BatchesOfEverySizeAreAnsweredLikeAMap) {
  MakeTables(9, 2000);
  for (const uint32_t worker_count : {1U, 2U, 7U, 20U}) {
    const std::unique_ptr<CoreShards> shards = Load(worker_count);
    std::mt19937_64 random(worker_count);
    std::string wrong = "did not run";
    const Status ran = Run(shards.get(), [&](uint32_t number, ShardWorker* worker) {
      if (number != worker_count - 1) return Status::Ok();
      for (const uint32_t count : {0U, 1U, 2U, 3U, 17U, 64U, 999U, 1000U, 1U, 30U}) {
        wrong = Ask(worker, count, &random);
        if (!wrong.empty()) break;
      }
      return Status::Ok();
    });
    EXPECT_TRUE(ran.ok()) << ran.ToString();
    EXPECT_EQ(wrong, "") << worker_count;
  }
}

TEST_F(CoreShardsTest, WorkersThatAskEachOtherAllGetTheirAnswers) {
  MakeTables(5, 2000);
  constexpr uint32_t kWorkers = 4;
  const std::unique_ptr<CoreShards> shards = Load(kWorkers);
  for (int run = 0; run < 2; ++run) {
    std::vector<std::string> wrong(kWorkers, "did not run");
    const Status ran = Run(shards.get(), [&](uint32_t number, ShardWorker* worker) {
      std::mt19937_64 random(number);
      for (int batch = 0; batch < 300; ++batch) {
        wrong[number] = Ask(worker, batch % 4 == 0 ? 1 : 1 + random() % 100, &random);
        if (!wrong[number].empty()) break;
      }
      return Status::Ok();
    });
    EXPECT_TRUE(ran.ok()) << ran.ToString();
    for (const std::string& first : wrong) EXPECT_EQ(first, "");
  }
}

TEST_F(CoreShardsTest, EachWorkerHasAThreadAndItsFailureComesBack) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Load(2);
  std::thread::id ids[2];
  ASSERT_TRUE(Run(shards.get(), [&](uint32_t number, ShardWorker*) {
                ids[number] = std::this_thread::get_id();
                return Status::Ok();
              }).ok());
  EXPECT_EQ(std::set({ids[0], ids[1], std::this_thread::get_id()}).size(), 3U);
  const auto fail = [](uint32_t number, ShardWorker*) {
    return number == 0 ? Status::Full("so") : Status::Ok();
  };
  EXPECT_EQ(Run(shards.get(), fail).ToString(), Status::Full("so").ToString());
  const auto run_out = [](uint32_t, ShardWorker*) -> Status { throw std::bad_alloc(); };
  EXPECT_EQ(Run(shards.get(), run_out).code(), Code::kOutOfMemory);
}

TEST_F(CoreShardsTest, ATableThatCannotBeLoadedFails) {
  MakeTables(3, 100);
  std::filesystem::remove(dir_.Join("table1"));
  options_.worker_count = 2;
  std::unique_ptr<CoreShards> shards;
  EXPECT_EQ(CoreShards::Load(options_, &shards).code(), Code::kIOError);
  EXPECT_EQ(shards, nullptr);
}

TEST_F(CoreShardsTest, WorkersArePinnedWhereThatIsGranted) {
  MakeTables(1, 100);
  const std::vector<uint32_t> cpus = AvailableCpus();
  ASSERT_FALSE(cpus.empty());
  options_.cpus = {cpus.back()};
  const std::unique_ptr<CoreShards> shards = Load(1);
  std::vector<uint32_t> seen;
  ASSERT_TRUE(Run(shards.get(), [&](uint32_t, ShardWorker*) {
                seen = AvailableCpus();
                return Status::Ok();
              }).ok());
  if (shards->pinned_count() == 0) GTEST_SKIP() << "pinning is refused here";
  EXPECT_EQ(seen, std::vector<uint32_t>({cpus.back()}));
  EXPECT_EQ(AvailableCpus(), cpus);
}

TEST_F(CoreShardsTest, PinningThatIsRefusedChangesNothingElse) {
  MakeTables(1, 100);
  // No such CPU, and a number that no set holds; then more workers than CPUs.
  for (const std::vector<uint32_t>& cpus :
       {std::vector<uint32_t>{1023, 1u << 30}, AvailableCpus()}) {
    options_.cpus = cpus;
    const auto count = static_cast<uint32_t>(cpus == AvailableCpus() ? cpus.size() + 1 : 2);
    const std::unique_ptr<CoreShards> shards = Load(count);
    EXPECT_EQ(shards->pinned_count(), 0U);
    std::mt19937_64 random(1);
    std::string wrong = "did not run";
    ASSERT_TRUE(Run(shards.get(), [&](uint32_t number, ShardWorker* worker) {
                  if (number == 1) wrong = Ask(worker, 100, &random);
                  return Status::Ok();
                }).ok());
    EXPECT_EQ(wrong, "");
  }
}

TEST_F(CoreShardsTest, AWorkerWhoseWorkIsDoneSleeps) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Load(2);
  std::atomic<pid_t> done{0};
  bool slept = false;
  const auto sleeps = [&done] {
    std::ifstream file("/proc/self/task/" + std::to_string(done) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = text.rfind(") ");
    return name_end != std::string::npos && text[name_end + 2] == 'S';
  };
  ASSERT_TRUE(Run(shards.get(), [&](uint32_t number, ShardWorker*) {
                if (number == 0) done = ::gettid();
                if (number == 1) slept = Eventually(sleeps);
                return Status::Ok();
              }).ok());
  EXPECT_TRUE(slept);
}

TEST(ShardInboxTest, MailsComeOutInTheOrderInWhichTheyCameIn) {
  lab::ShardInbox inbox;
  lab::Mail mails[3];
  EXPECT_EQ(inbox.TakeAll(), nullptr);
  for (lab::Mail& mail : mails) inbox.Push(&mail);
  lab::Mail* const first = inbox.TakeAll();
  EXPECT_EQ(first, &mails[0]);
  EXPECT_EQ(first->next, &mails[1]);
  EXPECT_EQ(first->next->next, &mails[2]);
  EXPECT_EQ(mails[2].next, nullptr);
}

TEST(ShardInboxTest, AMailWakesTheWorkerThatSleeps) {
  lab::ShardInbox inbox;
  lab::Mail mail;
  inbox.Push(&mail);
  EXPECT_EQ(inbox.TakeAll(/*sleeps=*/true), &mail);
  EXPECT_EQ(inbox.TakeAll(), nullptr);
  lab::Mail* taken = nullptr;
  {
    const std::jthread worker([&] { taken = inbox.TakeAll(/*sleeps=*/true); });
    inbox.Push(&mail);
  }
  EXPECT_EQ(taken, &mail);
}

}  // namespace
}  // namespace engine_race::test
