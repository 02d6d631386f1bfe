#include "harness/load/file_reads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kThreads = 4;
constexpr uint32_t kGroupRecords = 4;

// The keys in front of the values in the loop's files. A value that is found twice fails the test.
std::set<uint64_t> KeysIn(const std::string& dir) {
  std::set<uint64_t> keys;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().filename() == "bare_staging") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> value(kValueSize);
    while (file.read(value.data(), kValueSize)) {
      uint64_t key = 0;
      std::memcpy(&key, value.data(), sizeof(key));
      EXPECT_TRUE(keys.insert(key).second);
    }
  }
  return keys;
}

BareWrites LoopIn(const std::string& dir) {
  BareWrites loop;
  loop.dir = dir + "/bare";
  loop.thread_count = kThreads;
  loop.group_bytes = kGroupRecords * kValueSize;
  return loop;
}

TEST(BareWritesTest, EveryFullGroupIsInAFile) {
  const test::TempDir dir;
  BareWrites loop = LoopIn(dir.path());
  loop.record_count = uint64_t{kThreads} * kGroupRecords * 3;
  TimedPoint run;
  const Status status = RunBareWrites(loop, &run);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(run.request_count, loop.record_count);
  std::set<uint64_t> expected;
  std::vector<char> value(kValueSize);
  for (uint64_t i = 0; i < loop.record_count; ++i) expected.insert(StampRecord(i, value.data()));
  EXPECT_EQ(KeysIn(loop.dir), expected);
}

TEST(BareWritesTest, RecordsSpreadOverTheGroupsOfAThread) {
  const test::TempDir dir;
  BareWrites loop = LoopIn(dir.path());
  loop.groups_per_thread = 8;
  loop.record_count = uint64_t{kThreads} * kGroupRecords * 100;
  TimedPoint run;
  ASSERT_TRUE(RunBareWrites(loop, &run).ok());
  const size_t written = KeysIn(loop.dir).size();
  EXPECT_EQ(written % kGroupRecords, 0u);
  // Records in groups that are not full stay in memory.
  const uint64_t left_at_most = uint64_t{kThreads} * loop.groups_per_thread * (kGroupRecords - 1);
  EXPECT_GE(written, loop.record_count - left_at_most);
  EXPECT_LT(written, loop.record_count);
}

TEST(BareWritesTest, ADirectoryThatCannotBeMadeIsAFailure) {
  TimedPoint run;
  EXPECT_FALSE(RunBareWrites(LoopIn("/proc"), &run).ok());
}

}  // namespace
}  // namespace engine_race::harness
