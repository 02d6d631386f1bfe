// A store that would run out of file descriptors is refused before anything of it is made.
#include "engine_race/log/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kPathCount = 6;
constexpr uint32_t kFileCount = 8;

class DescriptorsTest : public testing::Test {
 protected:
  DescriptorsTest() {
    options_.bucket_count = 8;
    options_.file_count = kFileCount;
    options_.bucket_capacity_records = 4096;
    for (uint32_t i = 0; i < kPathCount; ++i) {
      options_.paths.push_back(dir_.Join("path" + std::to_string(i)));
    }
  }

  Status Open(std::unique_ptr<Store>* store) const {
    return Store::Open(options_, dir_.Join("store"), store);
  }
  uint64_t need() const { return DescriptorsOf(GeometryFrom(options_), kPathCount, 0); }

  TempDir dir_{FastParent()};
  Options options_;
};

// Calls `run` in a child process. Returns the number of the first expectation that failed, or 0.
int InChild(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

size_t InUse() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

bool Limit(uint64_t count) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = count;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool Says(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

TEST_F(DescriptorsTest, PathsAndDevicesAreCounted) {
  Geometry geometry = GeometryFrom(Options());
  constexpr uint64_t kRest = kOwnDescriptors + kSpareDescriptors;
  EXPECT_EQ(DescriptorsOf(geometry, 0, 0), 2 * 32 + kRest);
  geometry.path_count = 64;
  EXPECT_EQ(DescriptorsOf(geometry, 64, 0), 2 * 64 + 2 * 64 + kRest);
  geometry.path_count = 4;
  EXPECT_EQ(DescriptorsOf(geometry, 1, 3), 2 * (8 + 3) + 2 + kRest);
}

TEST_F(DescriptorsTest, TooFewAreARefusalThatMakesNothing) {
  EXPECT_EQ(InChild([&] {
              const uint64_t limit = InUse() + need() - 2;
              std::unique_ptr<Store> store;
              if (!Limit(limit)) return 1;
              const Status refused = Open(&store);
              if (refused.code() != Code::kIOError) return 2;
              if (!Says(refused, std::to_string(need())) || !Says(refused, std::to_string(limit))) {
                return 3;
              }
              return std::filesystem::is_empty(dir_.path()) ? 0 : 4;
            }),
            0);
}

TEST_F(DescriptorsTest, AStoreThatExistsIsRefusedTheSameWay) {
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Open(&store).ok());
  store.reset();
  const uint64_t needed = need();
  EXPECT_EQ(InChild([&] {
              if (!Limit(InUse() + needed - 2)) return 1;
              options_.paths.clear();  // those in the manifest
              return Says(Open(&store), std::to_string(needed)) ? 0 : 2;
            }),
            0);
}

TEST_F(DescriptorsTest, AsManyAsItAsksForAreEnoughForAllThatItDoes) {
  EXPECT_EQ(InChild([&] {
              if (!Limit(InUse() + need())) return 1;
              options_.sync_mode = SyncMode::kGroup;
              options_.worker_count = 4;
              std::unique_ptr<Store> store;
              if (!Open(&store).ok()) return 2;
              if (!store->Write(KeyOf(1), ValueOf(1, 1)).ok() || !store->Sync().ok()) return 3;
              const std::vector<std::string> keys(100, KeyOf(1));
              const std::vector<std::string_view> views(keys.begin(), keys.end());
              std::vector<std::string> values(100);
              std::vector<Status> statuses(100);
              if (!store->MultiRead(views, values, statuses).ok() || !statuses[99].ok()) return 4;
              uint64_t visited_count = 0;
              const auto visit = [&](std::string_view, std::string_view) { ++visited_count; };
              return store->Range("", "", visit).ok() && visited_count == 1 ? 0 : 5;
            }),
            0);
}

}  // namespace
}  // namespace engine_race::test
