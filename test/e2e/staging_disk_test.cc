// Full disks on which a store into a mapped file may be a SIGBUS: a copy-on-write file system, and
// a copy that shares its blocks with the original. Each store lives in a child, which a signal
// ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"
#include "test/eventually.h"
#include "test/faults/no_populate.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kStagedKeys = 200;

Status WriteKey(Store* store, uint64_t i, uint64_t version) {
  return store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version));
}

// Runs in a child. Writes keys [first, first + count) as `version`, in every bucket, until some
// have been refused. 0, or what was wrong.
int WriteSome(Store* store, uint64_t first, uint64_t count, uint64_t version, bool* refused) {
  uint32_t patience = 20;
  for (uint64_t i = first; i < first + count && patience > 0; ++i) {
    const Status status = WriteKey(store, i, version);
    if (!status.ok() && status.code() != Code::kFull) return 1;
    if (status.ok()) continue;
    *refused = true;
    --patience;
  }
  return 0;
}

// Writes [0, kStagedKeys) with room, then more on a full disk, then again with room.
int LiveThroughAFullDisk(SmallDisk* disk, bool* was_refused) {
  std::unique_ptr<Store> store;
  if (!Store::Open(AsRun(SmallGroups()), disk->StoreDir(), &store).ok()) return 10;
  bool refused = false;
  if (WriteSome(store.get(), 0, kStagedKeys, 1, &refused) != 0 || refused) return 11;
  disk->AddBallast(8 * kDiskBytes);
  if (WriteSome(store.get(), kStagedKeys, 20 * kStagedKeys, 1, was_refused) != 0) return 12;
  disk->DropBallast();
  // A disk that has refused is asked again after a while.
  if (!Eventually([&] { return WriteKey(store.get(), 0, 2).ok(); })) return 13;
  if (WriteSome(store.get(), 1, kStagedKeys - 1, 2, &refused) != 0 || refused) return 13;
  store.reset();
  if (!Store::Open(AsRun(Options()), disk->StoreDir(), &store).ok()) return 14;
  for (uint64_t i = 0; i < kStagedKeys; ++i) {
    std::string value;
    if (!store->Read(KeyOf(NthKey(i)), &value).ok() || value != ValueOf(NthKey(i), 2)) return 15;
  }
  return 0;
}

TEST(StagingDiskTest, NoSignalOnAFullBtrfs) {
  SmallDisk disk(DiskKind::kBtrfs);
  if (!disk.mounted()) GTEST_SKIP() << "no btrfs could be mounted here: needs root";
  EXPECT_EQ(InChild([&disk] {
              bool refused = false;
              const int wrong = LiveThroughAFullDisk(&disk, &refused);
              return wrong != 0 ? wrong : refused ? 0 : 16;
            }),
            0);
}

// Gives every byte of a file a written block, as a copy without holes has them: unwritten ones are
// not shared.
void WriteOut(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::string bytes(fs::file_size(path), '\0');
  const auto size = static_cast<ssize_t>(bytes.size());
  EXPECT_EQ(::pread(fd, bytes.data(), bytes.size(), 0), size);
  EXPECT_EQ(::pwrite(fd, bytes.data(), bytes.size(), 0), size);
  EXPECT_EQ(::fsync(fd), 0);
  ::close(fd);
}

// cp --reflink=always of every file.
bool Clone(const std::string& from, const std::string& to) {
  fs::create_directory(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string copy = to + "/" + entry.path().filename().string();
    const int source = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const int target = ::open(copy.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const bool cloned = ::ioctl(target, FICLONE, source) == 0;
    ::close(source);
    ::close(target);
    if (!cloned) return false;
  }
  return true;
}

// Places so large that the disk fills up before all of their blocks have been replaced.
Options LargeGroups() {
  Options options = TinyOptions();
  options.value_group_bytes = kMaxValueGroupBytes;
  return options;
}

class CopyOnXfsTest : public ::testing::TestWithParam<bool> {};

TEST_P(CopyOnXfsTest, NoSignalInACopyThatSharesItsBlocks) {
  NoPopulate old_kernel;
  std::optional<ScopedHook> scope;
  if (GetParam()) scope.emplace(&old_kernel);
  SmallDisk disk(DiskKind::kXfs);
  if (!disk.mounted()) GTEST_SKIP() << "no XFS could be mounted here: needs root";
  ASSERT_EQ(InChild([&disk] {
              std::unique_ptr<Store> store;
              if (!Store::Open(AsRun(LargeGroups()), disk.StoreDir(), &store).ok()) return 1;
              bool refused = false;
              if (WriteSome(store.get(), 0, kStagedKeys, 1, &refused) != 0 || refused) return 2;
              return store->Stats().staging_mapped ? 0 : 3;
            }),
            0);
  for (const char* name :
       {format::kStagingCountsName, format::kStagingKeysName, format::kStagingValuesName}) {
    WriteOut(disk.StoreDir() + "/" + name);
  }
  const std::string copy = disk.StoreDir() + "_copy";
  ASSERT_TRUE(Clone(disk.StoreDir(), copy));
  EXPECT_EQ(InChild([&disk, &copy] {
              std::unique_ptr<Store> store;
              if (!Store::Open(AsRun(Options()), copy, &store).ok()) return 1;
              // While there is room: a full XFS refuses to reserve even what is there.
              bool refused = false;
              if (WriteSome(store.get(), 0, 1, 1, &refused) != 0 || refused) return 2;
              disk.AddBallast(8 * kDiskBytes);
              if (WriteSome(store.get(), kStagedKeys, 20 * kStagedKeys, 1, &refused) != 0) return 3;
              return refused ? 0 : 4;
            }),
            0);
  disk.DropBallast();
  for (const std::string& dir : {disk.StoreDir(), copy}) {
    const auto store = OpenStore(dir);
    ASSERT_NE(store, nullptr);
    for (uint64_t i = 0; i < kStagedKeys; ++i) ASSERT_EQ(VersionOf(store.get(), NthKey(i)), 1u);
    ASSERT_TRUE(WriteKey(store.get(), 0, 2).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CopyOnXfsTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "BeforePopulate" : "Present";
});

}  // namespace
}  // namespace engine_race::test
