#include "engine_race/base/sys_prefetch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/base/sys.h"
#include "test/eventually.h"
#include "test/faults/call_watch.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

constexpr uint64_t kPage = 4096;

class SysPrefetchTest : public testing::Test {
 protected:
  void SetUp() override {
    struct statfs info;
    ASSERT_EQ(::statfs(dir_.path().c_str(), &info), 0);
    if (info.f_type == TMPFS_MAGIC) GTEST_SKIP() << "files in memory are not read ahead";
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("f"), O_RDWR | O_CREAT, 0644, &fd_).ok());
  }
  // What is added is a hole: reading it takes no device.
  void SetSize(uint64_t size_bytes) { ASSERT_TRUE(sys::Truncate(fd_.get(), size_bytes).ok()); }
  // Writes data there that is in no page cache afterwards.
  void WriteCold(uint64_t offset, uint64_t size_bytes) {
    const std::vector<char> data(size_bytes, 'v');
    ASSERT_TRUE(sys::PwriteFull(fd_.get(), data.data(), size_bytes, offset).ok());
    ASSERT_EQ(::fdatasync(fd_.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  // Which pages are in the page cache.
  std::vector<unsigned char> Resident(uint64_t size_bytes) const {
    std::vector<unsigned char> pages(size_bytes / kPage);
    void* const mapped = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(::mincore(mapped, size_bytes, pages.data()), 0);
    ::munmap(mapped, size_bytes);
    for (unsigned char& page : pages) page &= 1;
    return pages;
  }
  // The device brings them some time after the call.
  void AwaitPages(uint64_t offset, uint64_t size_bytes) const {
    EXPECT_TRUE(test::Eventually([&] {
      const std::vector<unsigned char> pages = Resident(offset + size_bytes);
      return std::all_of(pages.begin() + static_cast<ptrdiff_t>(offset / kPage), pages.end(),
                         [](unsigned char page) { return page == 1; });
    }));
  }
  test::TempDir dir_;
  UniqueFd fd_;
};

// The kernel's window of reading ahead is smaller: it may be 8 MiB.
TEST_F(SysPrefetchTest, AFileIsReadAheadToItsEnd) {
  constexpr uint64_t kBytes = uint64_t{40} << 20;
  ASSERT_NO_FATAL_FAILURE(WriteCold(0, kBytes));
  ASSERT_TRUE(sys::PrefetchFile(AT_FDCWD, dir_.Join("f")).ok());
  AwaitPages(0, kBytes);
}

// 64 MiB of data, wherever they lie in the file.
TEST_F(SysPrefetchTest, AVeryLargeFileIsReadAheadInPart) {
  constexpr uint64_t kData = sys::kMaxPrefetchBytes + (uint64_t{1} << 20);
  constexpr uint64_t kHole = uint64_t{100} << 20;
  ASSERT_NO_FATAL_FAILURE(WriteCold(kHole, kData));
  ASSERT_TRUE(sys::PrefetchFile(AT_FDCWD, dir_.Join("f")).ok());
  AwaitPages(kHole, sys::kMaxPrefetchBytes);
  EXPECT_EQ(Resident(kHole + kData).back(), 0);
}

TEST_F(SysPrefetchTest, HolesAreNotReadAhead) {
  constexpr uint64_t kHole = uint64_t{20} << 20;
  ASSERT_NO_FATAL_FAILURE(WriteCold(kHole, kPage));
  ASSERT_NO_FATAL_FAILURE(SetSize(2 * kHole));
  ASSERT_TRUE(sys::PrefetchFile(AT_FDCWD, dir_.Join("f")).ok());
  AwaitPages(kHole, kPage);
  const std::vector<unsigned char> pages = Resident(2 * kHole);
  EXPECT_EQ(pages.front(), 0);
  EXPECT_EQ(pages.back(), 0);
}

// The staged entries of many buckets.
TEST_F(SysPrefetchTest, AVeryLargePartIsReadAheadInPart) {
  constexpr uint64_t kBytes = sys::kMaxPrefetchBytes + (uint64_t{2} << 20);
  ASSERT_NO_FATAL_FAILURE(SetSize(kBytes));
  sys::Prefetch(fd_.get(), kPage, kBytes - kPage);
  const std::vector<unsigned char> pages = Resident(kBytes);
  EXPECT_EQ(pages[sys::kMaxPrefetchBytes / kPage], 1);
  EXPECT_EQ(pages.back(), 0);
}

TEST_F(SysPrefetchTest, AMissingFileIsNone) {
  EXPECT_TRUE(sys::PrefetchFile(AT_FDCWD, dir_.Join("none")).ok());
}

// The last page of data, not of the file.
TEST_F(SysPrefetchTest, TheLastPageIsAwaited) {
  constexpr uint64_t kBytes = uint64_t{4} << 20;
  ASSERT_NO_FATAL_FAILURE(WriteCold(0, kBytes));
  ASSERT_NO_FATAL_FAILURE(WriteCold(2 * kBytes, kPage));
  ASSERT_NO_FATAL_FAILURE(WriteCold(2 * kBytes + 10 * kPage, kPage));
  ASSERT_NO_FATAL_FAILURE(SetSize(3 * kBytes));
  sys::AwaitPrefetched(fd_.get());
  const std::vector<unsigned char> pages = Resident(3 * kBytes);
  EXPECT_EQ(pages[2 * kBytes / kPage + 10], 1);
  EXPECT_EQ(pages.front(), 0);
  EXPECT_EQ(pages.back(), 0);
}

TEST_F(SysPrefetchTest, NothingIsAwaitedOfAnEmptyFile) {
  int read_count = 0;
  test::CallWatch watch([&read_count](test::SystemCall* call) {
    if (call->kind == test::CallKind::kPread) ++read_count;
    return call->Proceed();
  });
  const test::ScopedHook hook(&watch);
  sys::AwaitPrefetched(fd_.get());
  EXPECT_EQ(read_count, 0);
  EXPECT_TRUE(sys::PrefetchFile(AT_FDCWD, dir_.Join("f")).ok());
}

}  // namespace
}  // namespace engine_race
