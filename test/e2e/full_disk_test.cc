// A disk that is full, and a process whose files may not grow: a clear code, nothing acknowledged
// lost, and writing that goes on once there is room.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kBallastBytes = 16 * kMiB;

class FullDiskTest : public ::testing::TestWithParam<DiskKind> {};

TEST_P(FullDiskTest, WritesAreRefusedNothingIsLostAndWritingGoesOn) {
  SmallDisk disk(GetParam());
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  disk.AddBallast(kBallastBytes);
  Books books;
  std::unique_ptr<Store> store = OpenStore(disk.StoreDir(), SmallGroups());
  ASSERT_NE(store, nullptr);
  constexpr uint64_t kThreads = 8;
  const uint64_t kEach = 2 * kDiskBytes / kValueBytes / kThreads;
  // All of them together have twice as much to write as there is room for; a quick one may be
  // through with its share before the disk is full.
  std::atomic<uint32_t> refused_threads{0};
  RunThreads(kThreads, [&](uint32_t t) {
    for (uint64_t i = t * kEach; i < (t + 1) * kEach; ++i) {
      if (books.Write(store.get(), i)) continue;
      ++refused_threads;
      return;
    }
  });
  EXPECT_GT(refused_threads.load(), 0u) << "the disk never filled up";
  EXPECT_GT(books.acknowledged_count(), kDiskBytes / 4 / kValueBytes);
  books.ExpectThere(store.get());
  uint64_t next = kThreads * kEach;
  bool refused = false;
  for (int i = 0; i < 100; ++i) refused |= !books.Write(store.get(), next++);
  EXPECT_TRUE(refused);
  books.ExpectThere(store.get());

  store.reset();
  store = OpenStore(disk.StoreDir());
  ASSERT_NE(store, nullptr) << "a full disk keeps the store from being opened";
  books.ExpectThere(store.get());
  // The opening may have found some room.
  refused = false;
  for (uint64_t i = 0; i < kEach && !refused; ++i) refused = !books.Write(store.get(), next++);
  EXPECT_TRUE(refused);

  disk.DropBallast();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(books.Write(store.get(), next++)) << "there is room again, write " << i;
  }
  books.ExpectThere(store.get());
  store.reset();
  store = OpenStore(disk.StoreDir());
  ASSERT_NE(store, nullptr);
  books.ExpectThere(store.get());
}

TEST_P(FullDiskTest, NoRoomToMakeAStore) {
  SmallDisk disk(GetParam());
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  disk.AddBallast(2 * kDiskBytes);
  Books books;
  {
    std::unique_ptr<Store> store;
    const Status status = Store::Open(AsRun(SmallGroups()), disk.StoreDir(), &store);
    // An empty store may fit into what is left, but then its first write does not.
    if (status.ok()) {
      EXPECT_FALSE(books.Write(store.get(), 0));
    } else {
      EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
    }
  }
  disk.DropBallast();
  const auto store = OpenStore(disk.StoreDir(), SmallGroups());
  ASSERT_NE(store, nullptr);
  for (uint64_t i = 1; i < 1000; ++i) ASSERT_TRUE(books.Write(store.get(), i));
  books.ExpectThere(store.get());
}

// Turns the zero pages of a file into holes, as a sparse copy would.
void DigHoles(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  std::string page(4096, '\0');
  const std::string zeros(4096, '\0');
  off_t offset = 0;
  for (; ::pread(fd, page.data(), page.size(), offset) == 4096; offset += 4096) {
    if (page != zeros) continue;
    ASSERT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, 4096), 0);
  }
  ::close(fd);
}

TEST_P(FullDiskTest, SparselyCopiedStagingIsNoBusError) {
  SmallDisk disk(GetParam());
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  const uint64_t key = NthKey(0);
  {
    const auto store = OpenStore(disk.StoreDir(), SmallGroups());
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
  }
  for (const char* name :
       {format::kStagingCountsName, format::kStagingKeysName, format::kStagingValuesName}) {
    DigHoles(disk.StoreDir() + "/" + name);
  }
  disk.AddBallast(2 * kDiskBytes);
  // A signal must end only the child.
  EXPECT_EQ(InChild([&] {
              std::unique_ptr<Store> store;
              if (const Status opened = Store::Open(AsRun(Options()), disk.StoreDir(), &store);
                  !opened.ok()) {
                return opened.code() == Code::kFull ? 0 : 1;
              }
              bool refused = false;
              for (uint64_t i = 1; i < 200; ++i) {
                const Status status = store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1));
                if (!status.ok() && status.code() != Code::kFull) return 2;
                refused |= !status.ok();
              }
              if (!refused) return 3;
              std::string value;
              if (!store->Read(KeyOf(key), &value).ok() || value != ValueOf(key, 1)) return 4;
              return 0;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Disks, FullDiskTest,
                         ::testing::Values(DiskKind::kTmpfs, DiskKind::kExt4With4KBlocks,
                                           DiskKind::kExt4With1KBlocks, DiskKind::kXfs,
                                           DiskKind::kBtrfs),
                         [](const auto& info) { return DiskName(info.param); });

bool LimitFileSize(rlim_t bytes) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  limit.rlim_cur = bytes;
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

TEST(FileSizeLimitTest, StoreIsNotMadeUnderASmallLimit) {
  TempDir dir;
  const std::string store_dir = dir.Join("store");
  EXPECT_EQ(InChild([&] {
              if (!LimitFileSize(kMiB)) return 1;
              std::unique_ptr<Store> store;
              const Status status = Store::Open(AsRun(Options()), store_dir, &store);
              return status.code() == Code::kFull && !status.message().empty() ? 0 : 2;
            }),
            0);
  const auto store = OpenStore(store_dir);
  ASSERT_NE(store, nullptr) << "what the refused opening left is in the way";
  ExpectHolds(store.get(), {});
}

TEST(FileSizeLimitTest, WritesUnderASmallLimitAreRefusedAndGoOnWithoutIt) {
  TempDir dir;
  const std::string store_dir = dir.Join("store");
  EXPECT_EQ(InChild([&] {
              std::unique_ptr<Store> store;
              if (!Store::Open(AsRun(SmallGroups()), store_dir, &store).ok()) return 1;
              const auto write = [&store](uint64_t i) {
                return store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1));
              };
              const auto holds = [&store](uint64_t i) {
                std::string value;
                return store->Read(KeyOf(NthKey(i)), &value).ok() && value == ValueOf(NthKey(i), 1);
              };
              for (uint64_t i = 0; i < 100; ++i) {
                if (!write(i).ok()) return 2;
              }
              if (!LimitFileSize(kMiB)) return 3;
              std::vector<uint64_t> acknowledged;
              bool refused = false;
              for (uint64_t i = 100; i < 2000; ++i) {
                const Status status = write(i);
                if (status.ok()) acknowledged.push_back(i);
                if (!status.ok() && status.code() != Code::kFull) return 4;
                refused |= !status.ok();
              }
              if (!refused) return 5;
              if (!std::all_of(acknowledged.begin(), acknowledged.end(), holds)) return 6;
              if (!LimitFileSize(RLIM_INFINITY)) return 7;
              for (uint64_t i = 2000; i < 3000; ++i) {
                if (!write(i).ok()) return 8;
                acknowledged.push_back(i);
              }
              return std::all_of(acknowledged.begin(), acknowledged.end(), holds) ? 0 : 9;
            }),
            0);
  const auto store = OpenStore(store_dir);
  for (uint64_t i = 2000; i < 3000; ++i) ASSERT_EQ(VersionOf(store.get(), NthKey(i)), 1u);
}

// With almost all that they have space for. A segment of each bucket need not be full.
TEST(DisksOfTwoSizesTest, BothAreFilled) {
  SmallDisk small(DiskKind::kTmpfs, 16 * kMiB);
  SmallDisk large(DiskKind::kTmpfs, 64 * kMiB);
  if (!small.mounted() || !large.mounted()) GTEST_SKIP() << "nothing could be mounted: needs root";
  TempDir dir(FastParent());
  Options options = SmallGroups();
  options.paths = {small.StoreDir(), large.StoreDir()};
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  Books books;
  for (uint64_t i = 0; i < 56 * kMiB / kValueBytes; ++i) ASSERT_TRUE(books.Write(store.get(), i));
  ASSERT_TRUE(store->Sync().ok());
  EXPECT_LT(std::filesystem::space(small.StoreDir()).available, 8 * kMiB);
  books.ExpectThere(store.get());
}

TEST(FileSizeLimitTest, StoreIsReadUnderASmallLimit) {
  TempDir dir;
  {
    const auto store = OpenStore(dir.path(), SmallGroups());
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)).ok());
    }
  }
  EXPECT_EQ(InChild([&] {
              if (!LimitFileSize(4096)) return 1;
              std::unique_ptr<Store> store;
              if (!Store::Open(AsRun(Options()), dir.path(), &store).ok()) return 2;
              for (uint64_t i = 0; i < 1000; ++i) {
                std::string value;
                if (!store->Read(KeyOf(NthKey(i)), &value).ok()) return 3;
                if (value != ValueOf(NthKey(i), 1)) return 4;
              }
              const Status status = store->Write(KeyOf(1), ValueOf(1, 1));
              return status.code() == Code::kFull ? 0 : 5;
            }),
            0);
}

}  // namespace
}  // namespace engine_race::test
