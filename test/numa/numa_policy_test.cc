// Which policy threads have when a store allocates from the heap, takes in pages of staging or
// calls the log callback.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/no_populate.h"
#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/numa/numa_test_util.h"

namespace engine_race::test {
namespace {

class NumaPolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  }
};

// Requests for the array of buckets, and those by threads that are not bound to node 0.
int bucket_request_count = 0;
int unplaced_request_count = 0;
constexpr uint32_t kManyBuckets = 1024;

void WatchRequest(size_t size) {
  constexpr size_t kArrayBytes = kManyBuckets * sizeof(BucketIndex);
  // C++ may keep the array's length in front of it.
  if (size < kArrayBytes || size > kArrayBytes + alignof(BucketIndex)) return;
  ++bucket_request_count;
  if (PolicyOf(nullptr) != Policy{MPOL_BIND, 1}) ++unplaced_request_count;
}

TEST_F(NumaPolicyTest, TheBucketsOfTheIndexArePlaced) {
  const TempDir dir(FastParent());
  Options options = BoundTo(0);
  options.bucket_count = kManyBuckets;
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  std::string value;
  {
    const WatchMemory watch(WatchRequest);
    ASSERT_TRUE(store->Read(KeyOf(1), &value).ok());
  }
  EXPECT_EQ(bucket_request_count, 1);
  EXPECT_EQ(unplaced_request_count, 0);
}

// A logger may start its writer thread when the first line comes.
TEST_F(NumaPolicyTest, FilesAreReportedUnderTheCallersPolicy) {
  const TempDir dir(FastParent());
  ASSERT_NE(OpenStore(dir.path(), BoundTo(0)), nullptr);
  std::filesystem::create_hard_link(dir.Join(format::kStagingCountsName), dir.Join("link"));
  Options options = BoundTo(0);
  int line_count = 0;
  options.log = [&line_count](LogLevel, std::string_view line) {
    if (line.find("hard links") == std::string_view::npos) return;
    ++line_count;
    EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_DEFAULT, 0}));
  };
  ASSERT_NE(OpenStore(dir.path(), options), nullptr);
  EXPECT_EQ(line_count, 1);
}

// How many pages of a file the page cache has.
uint64_t CachedPages(const std::string& path) {
  UniqueFd fd;
  EXPECT_TRUE(sys::OpenAt(AT_FDCWD, path, O_RDWR, 0, &fd).ok());
  const uint64_t size = std::filesystem::file_size(path);
  SharedMapping mapping;
  EXPECT_TRUE(SharedMapping::Map(fd.get(), size, &mapping).ok());
  std::vector<unsigned char> cached((size + kIoAlignment - 1) / kIoAlignment);
  EXPECT_EQ(::mincore(mapping.data(), size, cached.data()), 0);
  uint64_t count = 0;
  for (const unsigned char page : cached) count += page & 1;
  return count;
}

// On tmpfs pages enter the page cache when space is reserved.
bool IsOnTmpfs(const std::string& path) {
  struct statfs info;
  return ::statfs(path.c_str(), &info) != 0 || info.f_type == TMPFS_MAGIC;
}

TEST_F(NumaPolicyTest, PagesOfOtherBucketsAreNotTakenIn) {
  for (const bool has_populate : {true, false}) {
    const TempDir dir;
    if (IsOnTmpfs(dir.path())) GTEST_SKIP() << "temporary files lie on tmpfs";
    NoPopulate hook;
    std::optional<ScopedHook> scope;
    if (!has_populate) scope.emplace(&hook);
    Options options = BoundTo(0);
    options.numa = {NumaMode::kInterleave, {0}};
    LogLines log;
    options.log = log.Callback();
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    if (log.Said("staged with pwrite")) GTEST_SKIP() << "records are staged with pwrite here";
    ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
    const uint64_t group_pages = options.value_group_bytes / kIoAlignment;
    EXPECT_EQ(CachedPages(dir.Join(format::kStagingValuesName)), group_pages)
        << "populates: " << has_populate;
  }
}

}  // namespace
}  // namespace engine_race::test
