// The threads of core shards: where they run, and that idle ones sleep.
#include "harness/lab/core_shards.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"
#include "test/harness/lab/shards_test_util.h"

namespace lab {

namespace test = engine_race::test;

namespace {

using engine_race::AvailableCpus;
using engine_race::Status;
using test::KnownBatch;

class CoreShardsThreadsTest : public test::ShardsTest {};

TEST_F(CoreShardsThreadsTest, WorkersArePinnedWhereThatIsGranted) {
  MakeTables(1, 100);
  const std::vector<uint32_t> cpus = AvailableCpus();
  ASSERT_FALSE(cpus.empty());
  CoreShardsOptions options;
  options.worker_count = 1;
  options.frame_count = 8;
  options.cpus = {cpus.back()};
  const std::unique_ptr<CoreShards> shards = Start(options);
  std::vector<uint32_t> seen;
  ASSERT_TRUE(shards
                  ->Run(0,
                        [&](ShardClient&) {
                          seen = AvailableCpus();
                          return Status::Ok();
                        })
                  .ok());
  if (shards->pinned_count() == 0) GTEST_SKIP() << "pinning is refused here";
  EXPECT_EQ(seen, std::vector<uint32_t>({cpus.back()}));
  EXPECT_EQ(AvailableCpus(), cpus);
}

TEST_F(CoreShardsThreadsTest, PinningThatIsRefusedChangesNothingElse) {
  MakeTables(1, 100);
  CoreShardsOptions options;
  options.worker_count = 2;
  options.frame_count = 8;
  // No such CPU, and a number that no set holds; then more workers than CPUs.
  for (const std::vector<uint32_t>& cpus :
       {std::vector<uint32_t>{1023, 1u << 30}, AvailableCpus()}) {
    options.cpus = cpus;
    if (cpus == AvailableCpus()) options.worker_count = static_cast<uint32_t>(cpus.size()) + 1;
    const std::unique_ptr<CoreShards> shards = Start(options);
    const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
    KnownBatch batch(&tables_);
    for (const std::string& key : tables_[0].keys) batch.Add(0, key);
    client->Get(batch.gets());
    EXPECT_EQ(batch.Wrong(), "");
    EXPECT_EQ(shards->pinned_count(), 0U);
  }
}

// The state letter of each thread of this process but the calling one.
std::string ThreadStates() {
  std::string states;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream file(task.path() / "stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos) states += text[name_end + 2];
  }
  return states;
}

TEST_F(CoreShardsThreadsTest, IdleWorkersSleep) {
  MakeTables(1, 100);
  const std::unique_ptr<CoreShards> shards = Start(4);
  const std::unique_ptr<ShardClient> client = ClientOf(shards.get());
  KnownBatch batch(&tables_);
  batch.Add(0, tables_[0].keys[0]);
  client->Get(batch.gets());
  // A moment in which nobody runs is enough: who spins is always running or about to.
  bool asleep = false;
  for (uint32_t i = 0; i < 10000 && !asleep; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    asleep = ThreadStates().find('R') == std::string::npos;
  }
  EXPECT_TRUE(asleep);
}

}  // namespace
}  // namespace lab
