// Which raw block devices a store takes, and which it refuses.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"
#include "test/e2e/device_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

class DeviceRefusalTest : public DeviceStoreTest {};

TEST_F(DeviceRefusalTest, ADeviceTooSmallIsRefused) {
  const LoopDevice tiny(kMiB);
  ASSERT_TRUE(tiny.valid()) << tiny.why();
  options_.paths = {first_.path(), tiny.path()};
  ExpectRefusal(Code::kInvalidArgument, "too small");
  // The other is still nobody's.
  std::string bytes;
  ASSERT_TRUE(first_.Read(0, kMiB, &bytes));
  EXPECT_EQ(bytes, std::string(kMiB, '\0'));
}

TEST_F(DeviceRefusalTest, AFileSystemIsRefusedAndUnharmedUnlessToldOtherwise) {
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

TEST_F(DeviceRefusalTest, AMountedDeviceIsRefusedWhateverIsAsked) {
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

TEST_F(DeviceRefusalTest, AByteAtTheEndIsSomething) {
  ASSERT_TRUE(second_.Write(kDeviceBytes - 1, "x"));
  ExpectRefusal(Code::kInvalidArgument, "not empty");
  std::string bytes;
  ASSERT_TRUE(second_.Read(kDeviceBytes - 1, 1, &bytes));
  EXPECT_EQ(bytes, "x");
}

TEST_F(DeviceRefusalTest, OneDeviceTwiceIsRefused) {
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

TEST_F(DeviceRefusalTest, ADeviceStillInUseIsWaitedFor) {
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

TEST_F(DeviceRefusalTest, ABrokenDeviceIsNotTriedAgain) {
  MustOpen();
  store_.reset();
  RefusedOpens refused(second_.path(), EIO, 1000000);
  const ScopedHook hook(&refused);
  ExpectRefusal(Code::kIOError, second_.path());
  EXPECT_EQ(refused.count(), 1);
}

TEST_F(DeviceRefusalTest, SwappedDevicesAreRefused) {
  MustOpen();
  Write(0, 100, 1);
  options_.paths = {second_.path(), first_.path()};
  ExpectRefusal(Code::kInvalidArgument, "path 1 of 2");
  options_.paths = {first_.path(), second_.path()};
  MustOpen();
  ExpectAll(100, 1);
}

TEST_F(DeviceRefusalTest, AMissingDeviceIsRefusedAndAMovedOneFound) {
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

TEST_F(DeviceRefusalTest, AnotherStoresDeviceIsRefused) {
  MustOpen();
  Write(0, 100, 1);
  Options other = options_;
  std::unique_ptr<Store> second_store;
  EXPECT_EQ(Store::Open(AsRun(other), dir_.Join("other"), &second_store).code(), Code::kIOError)
      << "it is open";
  store_.reset();
  Status status = Store::Open(AsRun(other), dir_.Join("other"), &second_store);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("another store"), std::string::npos) << status.ToString();
  MustOpen();
  ExpectAll(100, 1);
  // Taken away from it, they are no longer its own.
  store_.reset();
  other.overwrite_devices = true;
  ASSERT_TRUE(Store::Open(AsRun(other), dir_.Join("other"), &second_store).ok());
  second_store.reset();
  ExpectRefusal(Code::kCorruption, "another store");
}

TEST_F(DeviceRefusalTest, AnInterruptedCreationIsGoneOnWith) {
  MustOpen();
  store_.reset();
  std::filesystem::rename(Dir() + "/" + format::kManifestName,
                          Dir() + "/" + format::kManifestDraftName);
  MustOpen();
  Write(0, 100, 1);
  Reopen();
  ExpectAll(100, 1);
}

}  // namespace
}  // namespace engine_race::test
