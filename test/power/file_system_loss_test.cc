// Real file systems that lose their page cache while the machine goes on: they are shut down as a
// device that goes away shuts them down, and mounted again.
//
// Needs root, loop devices and the mkfs programs; skipped where one is missing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "engine_race/base/file_system.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/loop_device.h"
#include "test/power/key_prefix.h"

namespace engine_race::test {
namespace {

// XFS and ext4 share it: EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN.
constexpr unsigned long kShutDown = _IOR('X', 125, uint32_t);
constexpr uint32_t kWithoutFlushingTheLog = 2;

class FileSystemTest : public testing::TestWithParam<const char*> {
 protected:
  // XFS takes no less than 300 MiB; the file is sparse.
  static constexpr uint64_t kDeviceBytes = uint64_t{400} << 20;

  void SetUp() override {
    if (!device_.valid()) GTEST_SKIP() << "no loop devices here: " << device_.why();
    const std::string command = "PATH=$PATH:/usr/sbin:/sbin mkfs." + std::string(GetParam()) +
                                " -q " + device_.path() + " > /dev/null 2>&1";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no mkfs." << GetParam() << " here";
    for (const std::string& dir : {Mounted(), Elsewhere()}) std::filesystem::create_directory(dir);
    if (!Mount()) GTEST_SKIP() << "mount: " << std::strerror(errno);
  }
  void TearDown() override {
    ::umount2(Elsewhere().c_str(), MNT_DETACH);
    ::umount2(Mounted().c_str(), MNT_DETACH);
  }

  std::string Mounted() const { return dir_.Join("mounted"); }
  std::string Elsewhere() const { return dir_.Join("elsewhere"); }
  std::string StoreDir() const { return Mounted() + "/store"; }
  bool Mount() const {
    return ::mount(device_.path().c_str(), Mounted().c_str(), GetParam(), 0, nullptr) == 0;
  }
  void MountAgain() const {
    ASSERT_EQ(::umount(Mounted().c_str()), 0) << std::strerror(errno);
    ASSERT_TRUE(Mount()) << std::strerror(errno);
  }
  // What is not on the device by now is gone.
  void LosePageCache() const {
    const UniqueFd root(::open(Mounted().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    uint32_t how = kWithoutFlushingTheLog;
    ASSERT_EQ(::ioctl(root.get(), kShutDown, &how), 0) << std::strerror(errno);
  }

  static uint64_t IdentityOf(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    sys::MountIdentity identity;
    EXPECT_TRUE(sys::IdentifyMount(fd.get(), &identity).ok());
    EXPECT_TRUE(identity.recognised) << path;
    return identity.word;
  }

  const LoopDevice device_{kDeviceBytes};
  const TempDir dir_;
};

class MountIdentityTest : public FileSystemTest {};

TEST_P(MountIdentityTest, IsOfTheMountAndNotOfTheMountPoint) {
  const uint64_t first = IdentityOf(Mounted());
  ASSERT_EQ(::mount(Mounted().c_str(), Elsewhere().c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(IdentityOf(Elsewhere()), first);
  EXPECT_EQ(::mount(nullptr, Mounted().c_str(), nullptr, MS_REMOUNT | MS_NOATIME, nullptr), 0);
  EXPECT_EQ(IdentityOf(Mounted()), first);
  ASSERT_EQ(::umount(Mounted().c_str()), 0);
  // It is still mounted elsewhere.
  ASSERT_TRUE(Mount());
  EXPECT_EQ(IdentityOf(Mounted()), first);
  ASSERT_EQ(::umount(Elsewhere().c_str()), 0);
  ASSERT_NO_FATAL_FAILURE(MountAgain());
  EXPECT_NE(IdentityOf(Mounted()), first);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, MountIdentityTest, testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& name) { return std::string(name.param); });

class FileSystemLossTest : public FileSystemTest {
 protected:
  static Options SmallOptions(SyncMode mode) {
    Options options;
    options.bucket_count = 2;
    options.file_count = 1;
    options.bucket_capacity_records = 4096;
    options.value_group_bytes = 4 * kValueBytes;
    options.memory_budget_bytes = kMinMemoryBudgetBytes;
    options.build_thread_count = 1;
    options.journal_bytes = kMinJournalBytes;
    options.sync_mode = mode;
    return options;
  }
};

TEST_P(FileSystemLossTest, WhatWasSyncedSurvivesAndWhatWasNotEndsInAPrefix) {
  constexpr uint64_t kSynced = 263;
  constexpr uint64_t kWritten = 301;
  const Options options = SmallOptions(SyncMode::kNone);
  auto store = OpenStore(StoreDir(), options);
  WriteKeysTo(store.get(), 1, kSynced + 1);
  ASSERT_TRUE(store->Sync().ok());
  WriteKeysTo(store.get(), kSynced + 1, kWritten + 1);
  ASSERT_NO_FATAL_FAILURE(LosePageCache());
  store.reset();
  ASSERT_NO_FATAL_FAILURE(MountAgain());
  store = OpenStore(StoreDir(), options);
  const uint64_t kept = ExpectPrefixOf(store.get(), kSynced, kWritten);
  WriteKeysTo(store.get(), kept + 1, kept + 20);
  ASSERT_TRUE(store->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(LosePageCache());
  store.reset();
  ASSERT_NO_FATAL_FAILURE(MountAgain());
  store = OpenStore(StoreDir(), options);
  ExpectPrefixOf(store.get(), kept + 19, kept + 19);
  store.reset();
}

TEST_P(FileSystemLossTest, WhatWasAcknowledgedInADurableModeSurvives) {
  constexpr uint64_t kRounds = 3;
  constexpr uint64_t kEach = 37;
  const Options options = SmallOptions(SyncMode::kGroup);
  for (uint64_t round = 0; round < kRounds; ++round) {
    auto store = OpenStore(StoreDir(), options);
    ExpectPrefixOf(store.get(), round * kEach, round * kEach);
    WriteKeysTo(store.get(), round * kEach + 1, (round + 1) * kEach + 1);
    ASSERT_NO_FATAL_FAILURE(LosePageCache());
    store.reset();
    ASSERT_NO_FATAL_FAILURE(MountAgain());
  }
  auto store = OpenStore(StoreDir(), options);
  ExpectPrefixOf(store.get(), kRounds * kEach, kRounds * kEach);
  store.reset();
}

// The device goes away under an open store. The counts of most buckets are clean in the page cache
// then, and on XFS a store into such a page ends the process. All records are in the logs, so the
// Sync fails with its first flush.
TEST_P(FileSystemLossTest, AFlushThatFailsIsAnErrorAndNoSignal) {
  constexpr uint64_t kGroup = 128;
  Options options = SmallOptions(SyncMode::kNone);
  options.bucket_count = 256;
  auto store = OpenStore(StoreDir(), options);
  WriteKeysTo(store.get(), 1, kGroup + 1);
  ASSERT_TRUE(store->Sync().ok());
  WriteKeysTo(store.get(), kGroup + 1, 2 * kGroup + 1);
  ASSERT_NO_FATAL_FAILURE(LosePageCache());
  EXPECT_EQ(store->Sync().code(), Code::kIOError);
  EXPECT_EQ(store->Write(KeyOf(0), ValueOf(0, 1)).code(), Code::kIOError);
  store.reset();
  ASSERT_NO_FATAL_FAILURE(MountAgain());
  store = OpenStore(StoreDir(), options);
  ExpectPrefixOf(store.get(), kGroup, 2 * kGroup);
  store.reset();
}

// On XFS the checkpoint shares blocks with its store.
TEST_P(FileSystemLossTest, ACheckpointAndABackupSurviveOnceTheirCallsHaveReturned) {
  constexpr uint64_t kWritten = 301;
  const Options options = SmallOptions(SyncMode::kNone);
  const std::string checkpoint = Mounted() + "/checkpoint";
  const std::string backup = Mounted() + "/backup";
  auto store = OpenStore(StoreDir(), options);
  WriteKeysTo(store.get(), 1, kWritten + 1);
  Status made = store->Backup(backup);
  ASSERT_TRUE(made.ok()) << made.ToString();
  made = store->Checkpoint(checkpoint);
  ASSERT_TRUE(made.ok()) << made.ToString();
  ASSERT_NO_FATAL_FAILURE(LosePageCache());
  store.reset();
  ASSERT_NO_FATAL_FAILURE(MountAgain());
  store = OpenStore(checkpoint, options);
  ExpectPrefixOf(store.get(), kWritten, kWritten);
  store.reset();
  const std::string restored = Mounted() + "/restored";
  made = Store::Restore(options, backup, restored);
  ASSERT_TRUE(made.ok()) << made.ToString();
  store = OpenStore(restored, options);
  ExpectPrefixOf(store.get(), kWritten, kWritten);
  store.reset();
}

INSTANTIATE_TEST_SUITE_P(FileSystems, FileSystemLossTest, testing::Values("ext4", "xfs"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace engine_race::test
