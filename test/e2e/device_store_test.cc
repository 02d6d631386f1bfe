// Stores whose values lie on raw block devices.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/device_format.h"
#include "engine_race/log/extents.h"
#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/faults/system_calls.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
const uint64_t kDeviceBytes = 32 * kMiB;
const uint64_t kKeys = Sized(4000, 1500);

uint64_t NthKey(uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; }

bool Format(const LoopDevice& device) {
  const std::string command =
      "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F " + device.path() + " > /dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

class DeviceStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const LoopDevice* device : {&first_, &second_}) {
      if (!device->valid()) GTEST_SKIP() << "no loop devices here: " << device->why();
    }
    options_.bucket_count = 8;
    options_.file_count = 2;
    options_.bucket_capacity_records = 1 << 20;
    options_.value_group_bytes = 16 * 1024;
    options_.stripe_unit_bytes = kMinStripeUnitBytes;
    options_.memory_budget_bytes = 32 * kMiB;
    options_.paths = {first_.path(), second_.path()};
  }

  Status Open() { return Store::Open(options_, Dir(), &store_); }
  // Of a store that opens: nothing else may fail.
  void MustOpen() {
    const Status status = Open();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Reopen() {
    store_.reset();
    MustOpen();
  }
  // The refusal of an opening, which leaves no store open.
  Status Refusal() {
    store_.reset();
    const Status status = Open();
    EXPECT_FALSE(status.ok());
    store_.reset();
    return status;
  }
  void ExpectRefusal(Code code, const std::string& word) {
    const Status status = Refusal();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.ToString();
  }

  void Write(uint64_t begin, uint64_t end, uint64_t version) {
    ASSERT_NE(store_, nullptr);
    for (uint64_t i = begin; i < end; ++i) {
      const Status status = store_->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  void ExpectAll(uint64_t count, uint64_t version) {
    ExpectReads(count, version);
    EXPECT_EQ(CountRange(version), count);
  }
  void ExpectReads(uint64_t count, uint64_t version) {
    ASSERT_NE(store_, nullptr);
    std::string value;
    for (uint64_t i = 0; i < count; ++i) {
      const Status status = store_->Read(KeyOf(NthKey(i)), &value);
      ASSERT_TRUE(status.ok()) << "key " << i << ": " << status.ToString();
      ASSERT_EQ(value, ValueOf(NthKey(i), version)) << "key " << i;
    }
  }
  // How many Range visits, in their order and with values of that version.
  uint64_t CountRange(uint64_t version) {
    uint64_t visited = 0;
    if (store_ == nullptr) return visited;
    uint64_t last = 0;
    bool good = true;
    const Status status = store_->Range({}, {}, [&](std::string_view key, std::string_view value) {
      const uint64_t word = DecodeKey(key.data());
      uint64_t found = 0;
      good = good && (visited == 0 || word > last) && ParseValue(word, value, &found) &&
             found == version;
      last = word;
      ++visited;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(good);
    return visited;
  }
  VerifyReport Verify(Code expected) {
    store_.reset();
    VerifyReport report;
    const Status status = Store::Verify(options_, Dir(), &report, {});
    EXPECT_EQ(status.code(), expected) << status.ToString();
    return report;
  }
  // Entries [begin, end) of a path's extent table, as if never written.
  void EraseExtents(uint32_t path, uint64_t begin, uint64_t end) {
    UniqueFd fd;
    ASSERT_TRUE(
        sys::OpenAt(AT_FDCWD, dir_.Join("store/" + ExtentTableName(path)), O_RDWR, 0, &fd).ok());
    const std::string zeros((end - begin) * sizeof(format::ExtentEntry), '\0');
    ASSERT_TRUE(sys::PwriteFull(fd.get(), zeros.data(), zeros.size(),
                                format::kExtentEntriesOffset + begin * sizeof(format::ExtentEntry))
                    .ok());
  }

  std::string Dir() const { return dir_.Join("store"); }

  TempDir dir_{FastParent()};
  LoopDevice first_{kDeviceBytes};
  LoopDevice second_{kDeviceBytes};
  Options options_;
  std::unique_ptr<Store> store_;
};

TEST_F(DeviceStoreTest, OverOneDevice) {
  options_.paths = {first_.path()};
  MustOpen();
  Write(0, kKeys, 1);
  ExpectAll(kKeys, 1);
  Reopen();
  ExpectAll(kKeys, 1);
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
}

TEST_F(DeviceStoreTest, OverTwoDevices) {
  MustOpen();
  Write(0, kKeys, 1);
  ASSERT_TRUE(store_->Sync().ok());
  ExpectAll(kKeys, 1);
  // The values are on both, and in no file.
  std::string bytes;
  for (const LoopDevice* device : {&first_, &second_}) {
    ASSERT_TRUE(device->Read(kMiB, kValueBytes, &bytes));
    EXPECT_NE(bytes, std::string(kValueBytes, '\0')) << device->path();
  }
  for (const auto& entry : std::filesystem::directory_iterator(Dir())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(format::kValueFilePrefix));
  }
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
  // Without being told: the manifest names them.
  options_.paths.clear();
  MustOpen();
  ExpectAll(kKeys, 1);
}

TEST_F(DeviceStoreTest, BesideADirectory) {
  options_.paths = {first_.path(), dir_.Join("values")};
  MustOpen();
  Write(0, kKeys, 1);
  Reopen();
  ExpectAll(kKeys, 1);
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
}

TEST_F(DeviceStoreTest, WritersReadersAndSyncsAtOnce) {
  constexpr uint64_t kThreads = 4;
  MustOpen();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      Write(t * kKeys / kThreads, (t + 1) * kKeys / kThreads, 1);
      EXPECT_TRUE(store_->Sync().ok());
      std::string value;
      for (uint64_t i = t * kKeys / kThreads; i < (t + 1) * kKeys / kThreads; ++i) {
        ASSERT_TRUE(store_->Read(KeyOf(NthKey(i)), &value).ok());
        ASSERT_EQ(value, ValueOf(NthKey(i), 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Reopen();
  ExpectAll(kKeys, 1);
}

TEST_F(DeviceStoreTest, InEverySyncMode) {
  for (const SyncMode mode : {SyncMode::kEveryWrite, SyncMode::kGroup}) {
    options_.sync_mode = mode;
    options_.journal_bytes = kMinJournalBytes;
    MustOpen();
    Write(0, 300, static_cast<uint64_t>(mode));
    Reopen();
    ExpectAll(300, static_cast<uint64_t>(mode));
    store_.reset();
  }
}

TEST_F(DeviceStoreTest, FullAtTheEndOfTheDevice) {
  const LoopDevice small(4 * kMiB);
  ASSERT_TRUE(small.valid()) << small.why();
  options_.paths = {small.path()};
  MustOpen();
  uint64_t written = 0;
  Status status;
  while (status.ok() && written < 10'000) {
    status = store_->Write(KeyOf(NthKey(written)), ValueOf(NthKey(written), 1));
    if (status.ok()) ++written;
  }
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  EXPECT_GT(written * kValueBytes, 2 * kMiB);
  EXPECT_LT(written * kValueBytes, 8 * kMiB);
  for (int opening = 0; opening < 2; ++opening) {
    ExpectReads(written, 1);
    // The write that was told of a full device may be there or not.
    EXPECT_LE(CountRange(1) - written, 1u);
    EXPECT_LE(Verify(Code::kOk).record_count - written, 1u);
    MustOpen();
  }
}

TEST_F(DeviceStoreTest, ADeviceTooSmallIsRefused) {
  const LoopDevice tiny(kMiB);
  ASSERT_TRUE(tiny.valid()) << tiny.why();
  options_.paths = {first_.path(), tiny.path()};
  ExpectRefusal(Code::kInvalidArgument, "too small");
  // The other is still nobody's.
  std::string bytes;
  ASSERT_TRUE(first_.Read(0, kMiB, &bytes));
  EXPECT_EQ(bytes, std::string(kMiB, '\0'));
}

TEST_F(DeviceStoreTest, AFileSystemIsRefusedAndUnharmedUnlessToldOtherwise) {
  if (!Format(second_)) GTEST_SKIP() << "no mkfs.ext4 here";
  std::string before;
  ASSERT_TRUE(second_.Read(0, kDeviceBytes, &before));
  ExpectRefusal(Code::kInvalidArgument, "not empty");
  std::string after;
  ASSERT_TRUE(second_.Read(0, kDeviceBytes, &after));
  EXPECT_TRUE(before == after);
  options_.overwrite_devices = true;
  MustOpen();
  Write(0, kKeys, 1);
  Reopen();
  ExpectAll(kKeys, 1);
}

TEST_F(DeviceStoreTest, AMountedDeviceIsRefusedWhateverIsAsked) {
  const std::string mount_point = dir_.Join("mounted");
  std::filesystem::create_directory(mount_point);
  if (!Format(second_)) GTEST_SKIP() << "no mkfs.ext4 here";
  if (::mount(second_.path().c_str(), mount_point.c_str(), "ext4", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing may be mounted here: " << std::strerror(errno);
  }
  options_.overwrite_devices = true;
  const Status status = Refusal();
  std::error_code harmed;
  std::filesystem::create_directory(mount_point + "/still_works", harmed);
  EXPECT_FALSE(harmed) << harmed.message();
  EXPECT_EQ(::umount2(mount_point.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(status.code(), Code::kIOError);
  EXPECT_NE(status.message().find("mounted or in use"), std::string::npos) << status.ToString();
}

TEST_F(DeviceStoreTest, AByteAtTheEndIsSomething) {
  ASSERT_TRUE(second_.Write(kDeviceBytes - 1, "x"));
  ExpectRefusal(Code::kInvalidArgument, "not empty");
  std::string bytes;
  ASSERT_TRUE(second_.Read(kDeviceBytes - 1, 1, &bytes));
  EXPECT_EQ(bytes, "x");
}

TEST_F(DeviceStoreTest, OneDeviceTwiceIsRefused) {
  options_.paths = {first_.path(), first_.path()};
  ExpectRefusal(Code::kIOError, "in use");
}

// Refuses the first `times` openings of a device, each with `error`.
class RefusedOpens : public SystemCallHook {
 public:
  RefusedOpens(std::string path, int error, int times)
      : path_(std::move(path)), error_(error), times_(times) {}
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kOpenAt || path_ != call->name) return call->Proceed();
    if (++count_ > times_) return call->Proceed();
    errno = error_;
    return -1;
  }
  int count() const { return count_.load(); }

 private:
  const std::string path_;
  const int error_;
  const int times_;
  std::atomic<int> count_{0};
};

TEST_F(DeviceStoreTest, ADeviceStillInUseIsWaitedFor) {
  MustOpen();
  Write(0, 100, 1);
  store_.reset();
  RefusedOpens refused(second_.path(), EBUSY, 3);
  {
    const ScopedHook hook(&refused);
    MustOpen();
  }
  EXPECT_EQ(refused.count(), 4);
  ExpectAll(100, 1);
}

TEST_F(DeviceStoreTest, ABrokenDeviceIsNotTriedAgain) {
  MustOpen();
  store_.reset();
  RefusedOpens refused(second_.path(), EIO, 1000000);
  const ScopedHook hook(&refused);
  ExpectRefusal(Code::kIOError, second_.path());
  EXPECT_EQ(refused.count(), 1);
}

TEST_F(DeviceStoreTest, SwappedDevicesAreRefused) {
  MustOpen();
  Write(0, 100, 1);
  options_.paths = {second_.path(), first_.path()};
  ExpectRefusal(Code::kInvalidArgument, "path 1 of 2");
  options_.paths = {first_.path(), second_.path()};
  MustOpen();
  ExpectAll(100, 1);
}

TEST_F(DeviceStoreTest, AMissingDeviceIsRefusedAndAMovedOneFound) {
  const std::string link = dir_.Join("disk");
  std::filesystem::create_symlink(second_.path(), link);
  options_.paths = {first_.path(), link};
  MustOpen();
  Write(0, 100, 1);
  std::filesystem::remove(link);
  ExpectRefusal(Code::kCorruption, "missing");
  options_.paths = {first_.path()};
  ExpectRefusal(Code::kInvalidArgument, "paths");
  options_.paths = {first_.path(), second_.path()};
  MustOpen();
  ExpectAll(100, 1);
  options_.paths.clear();
  Reopen();
  ExpectAll(100, 1);
}

TEST_F(DeviceStoreTest, AnotherStoresDeviceIsRefused) {
  MustOpen();
  Write(0, 100, 1);
  Options other = options_;
  std::unique_ptr<Store> second_store;
  EXPECT_EQ(Store::Open(other, dir_.Join("other"), &second_store).code(), Code::kIOError)
      << "it is open";
  store_.reset();
  Status status = Store::Open(other, dir_.Join("other"), &second_store);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("another store"), std::string::npos) << status.ToString();
  MustOpen();
  ExpectAll(100, 1);
  // Taken away from it, they are no longer its own.
  store_.reset();
  other.overwrite_devices = true;
  ASSERT_TRUE(Store::Open(other, dir_.Join("other"), &second_store).ok());
  second_store.reset();
  ExpectRefusal(Code::kCorruption, "another store");
}

TEST_F(DeviceStoreTest, AnInterruptedCreationIsGoneOnWith) {
  MustOpen();
  store_.reset();
  std::filesystem::rename(Dir() + "/" + format::kManifestName,
                          Dir() + "/" + format::kManifestDraftName);
  MustOpen();
  Write(0, 100, 1);
  Reopen();
  ExpectAll(100, 1);
}

TEST_F(DeviceStoreTest, ASyncedExtentThatIsGoneIsCorruption) {
  MustOpen();
  Write(0, kKeys, 1);
  ASSERT_TRUE(store_->Sync().ok());
  store_.reset();
  EraseExtents(1, 2, 3);
  ExpectRefusal(Code::kCorruption, ExtentTableName(1));
}

TEST_F(DeviceStoreTest, WhatLayInALostExtentIsAnErrorAndNothingElse) {
  MustOpen();
  Write(0, kKeys, 1);
  store_.reset();
  EraseExtents(0, 3, 5);
  EXPECT_GT(Verify(Code::kCorruption).bad_count, 0u);
  MustOpen();
  std::string value;
  uint64_t lost = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Status status = store_->Read(KeyOf(NthKey(i)), &value);
    if (!status.ok()) ++lost;
    EXPECT_TRUE(status.ok() || status.code() == Code::kCorruption) << status.ToString();
    if (status.ok()) {
      ASSERT_EQ(value, ValueOf(NthKey(i), 1));
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, kKeys);
  bool good = true;
  const Status ranged = store_->Range({}, {}, [&](std::string_view key, std::string_view bytes) {
    uint64_t version = 0;
    good = good && ParseValue(DecodeKey(key.data()), bytes, &version);
  });
  EXPECT_FALSE(ranged.ok());
  EXPECT_TRUE(good);
}

TEST_F(DeviceStoreTest, DamageOnTheDeviceIsCorruption) {
  options_.paths = {first_.path()};
  MustOpen();
  Write(0, kKeys, 1);
  store_.reset();
  ASSERT_TRUE(first_.Write(kMiB + 2 * kValueBytes + 100, "damage"));
  EXPECT_EQ(Verify(Code::kCorruption).bad_count, 1u);
  ASSERT_TRUE(first_.Write(20, "damage"));
  ExpectRefusal(Code::kCorruption, "checksum");
}

}  // namespace
}  // namespace engine_race::test
