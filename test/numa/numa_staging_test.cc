// Which policy threads have when pages of staging can enter the page cache. Such pages show in no
// map of the process, so the system calls are watched.
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"
#include "test/numa/numa_test_util.h"

namespace engine_race::test {
namespace {

// Counts the calls that take pages of staging into the page cache, and those of them by threads
// that are not bound to node 0.
class StagingWatch : public SystemCallHook {
 public:
  // `has_populate` is false for a kernel before Linux 5.14.
  explicit StagingWatch(bool has_populate) : has_populate_(has_populate) {}

  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kMmap && call->fd >= 0) return OnMmap(call);
    if (call->kind == CallKind::kMadvise && call->flags == MADV_POPULATE_WRITE) {
      if (!has_populate_) {
        errno = EINVAL;
        return -1;
      }
      Count(&populate_count_);
      TakePopulated(static_cast<const char*>(call->buffer), static_cast<off_t>(call->size));
    } else if (call->kind == CallKind::kFallocate || call->kind == CallKind::kPread ||
               call->kind == CallKind::kPwrite) {
      const std::string path = PathOf(*call);
      const auto is = [&path](const char* name) { return path.ends_with(std::string("/") + name); };
      if (is(format::kStagingValuesName) || is(format::kStagingKeysName) ||
          is(format::kStagingCountsName)) {
        if (call->kind == CallKind::kFallocate) {
          Count(&reserve_count_);
        } else if (TakesNew(path, call->offset, static_cast<off_t>(call->size))) {
          Count(call->kind == CallKind::kPread ? &read_count_ : &write_count_);
        }
      }
    }
    return call->Proceed();
  }

  int populate_count() const { return populate_count_; }
  int reserve_count() const { return reserve_count_; }
  int read_count() const { return read_count_; }
  int write_count() const { return write_count_; }
  int unplaced_count() const { return unplaced_count_; }

 private:
  static constexpr off_t kPageBytes = 4096;

  // A file's mapping, from its offset 0 on.
  struct Mapping {
    std::string path;
    const char* end;
  };

  long OnMmap(SystemCall* call) {
    const long address = call->Proceed();
    if (address == -1 || call->offset != 0) return address;
    const auto* begin = reinterpret_cast<const char*>(address);
    const std::lock_guard<std::mutex> lock(mutex_);
    mappings_[begin] = {PathOf(*call), begin + call->size};
    return address;
  }
  void TakePopulated(const char* address, off_t size) {
    std::string path;
    off_t offset = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      auto found = mappings_.upper_bound(address);
      if (found == mappings_.begin() || address >= (--found)->second.end) return;
      path = found->second.path;
      offset = address - found->first;
    }
    TakesNew(path, offset, size);
  }
  void Count(int* counter) {
    const bool is_bound = PolicyOf(nullptr) == Policy{MPOL_BIND, 1};
    const std::lock_guard<std::mutex> lock(mutex_);
    ++*counter;
    unplaced_count_ += is_bound ? 0 : 1;
  }
  // Whether the file has a page there that was neither read, written nor populated.
  bool TakesNew(const std::string& path, off_t offset, off_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bool is_new = false;
    for (off_t page = offset / kPageBytes; page * kPageBytes < offset + size; ++page) {
      is_new |= pages_.emplace(path, page).second;
    }
    return is_new;
  }

  const bool has_populate_;
  std::mutex mutex_;
  std::map<const char*, Mapping> mappings_;
  std::set<std::pair<std::string, off_t>> pages_;
  int populate_count_ = 0;
  int reserve_count_ = 0;
  int read_count_ = 0;
  int write_count_ = 0;
  int unplaced_count_ = 0;
};

class NumaStagingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  }

  // A store that is made and opened `opening_count` times, with 500 writes each.
  static void Run(StagingMode mode, uint32_t opening_count, StagingWatch* watch, bool* is_mapped) {
    const TempDir dir(FastParent());
    Options options = BoundTo(0);
    options.staging_mode = mode;
    *is_mapped = true;
    options.log = [is_mapped](LogLevel, std::string_view line) {
      if (line.find("staged with pwrite") != std::string_view::npos) *is_mapped = false;
    };
    const ScopedHook scope(watch);
    uint64_t key = 0;
    for (uint32_t opening = 1; opening <= opening_count; ++opening) {
      const auto store = OpenStore(dir.path(), options);
      ASSERT_NE(store, nullptr);
      for (; key < uint64_t{500} * opening; ++key) {
        const uint64_t spread = key * 0x9e3779b97f4a7c15;
        ASSERT_TRUE(store->Write(KeyOf(spread), ValueOf(spread, 1)).ok());
      }
    }
  }
};

TEST_F(NumaStagingTest, PopulatedPagesArePlaced) {
  StagingWatch watch(/*has_populate=*/true);
  bool is_mapped = false;
  Run(StagingMode::kAuto, 2, &watch, &is_mapped);
  if (!is_mapped) GTEST_SKIP() << "records are staged with pwrite here";
  EXPECT_GT(watch.populate_count(), 16);
  EXPECT_GT(watch.reserve_count(), 0);
  EXPECT_EQ(watch.unplaced_count(), 0);
}

TEST_F(NumaStagingTest, PagesThatNoCallPopulatesArePlaced) {
  StagingWatch watch(/*has_populate=*/false);
  bool is_mapped = false;
  Run(StagingMode::kAuto, 1, &watch, &is_mapped);
  if (!is_mapped) GTEST_SKIP() << "records are staged with pwrite here";
  EXPECT_GT(watch.read_count(), 16) << "pages are taken in by stores";
  EXPECT_EQ(watch.unplaced_count(), 0);
}

TEST_F(NumaStagingTest, WrittenPagesArePlaced) {
  StagingWatch watch(/*has_populate=*/true);
  bool is_mapped = false;
  Run(StagingMode::kWritten, 2, &watch, &is_mapped);
  EXPECT_GT(watch.write_count(), 16);
  EXPECT_EQ(watch.unplaced_count(), 0);
}

}  // namespace
}  // namespace engine_race::test
