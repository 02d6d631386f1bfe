// Raw devices that a store has open, or that others read: nobody takes them over.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "engine_race/copies/copies.h"
#include "engine_race/log/store_files.h"
#include "test/log/log_test_util.h"
#include "test/loop_device.h"

namespace engine_race {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class DeviceLockTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!loop_.valid()) GTEST_SKIP() << "no loop devices here: " << loop_.why();
    options_ = test::TinyLogOptions();
    options_.paths = {loop_.path()};
    StoreFiles files;
    const Status made = OpenStoreFiles(options_, Dir(), &files);
    ASSERT_TRUE(made.ok()) << made.ToString();
    store_id_ = files.identity.store_id;
  }

  std::string Dir() const { return dir_.Join("store"); }
  // A new store that is told to take the device whatever it holds.
  Status Overwrite() {
    Options options = options_;
    options.overwrite_devices = true;
    StoreFiles files;
    return OpenStoreFiles(options, dir_.Join("other"), &files);
  }
  void ExpectInUse() {
    const Status refused = Overwrite();
    EXPECT_EQ(refused.code(), Code::kIOError) << refused.ToString();
    EXPECT_NE(refused.message().find("in use"), std::string::npos) << refused.ToString();
    EXPECT_TRUE(std::filesystem::is_empty(dir_.Join("other")));
  }

  test::TempDir dir_{test::FastParent()};
  test::LoopDevice loop_{8 * kMiB};
  Options options_;
  uint64_t store_id_ = 0;
};

// overwrite_devices is consent to lose what is on a device, not to share it.
TEST_F(DeviceLockTest, ADeviceOfAnOpenStoreIsNotOverwritten) {
  {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFiles(options_, Dir(), &files).ok());
    ExpectInUse();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(Overwrite().code() == Code::kIOError ? 0 : 1);
    int result = 1;
    EXPECT_EQ(::waitpid(child, &result, 0), child);
    EXPECT_EQ(result, 0) << "from another process";
  }
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(options_, Dir(), &files).ok());
  EXPECT_EQ(files.identity.store_id, store_id_);
}

TEST_F(DeviceLockTest, NorIsOneThatIsBeingVerified) {
  {
    StoreFiles reader;
    ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &reader).ok());
    ExpectInUse();
    VerifyReport report;
    EXPECT_TRUE(VerifyStore(Dir(), &report, {}).ok()) << "readers share it";
  }
  EXPECT_TRUE(Overwrite().ok()) << "of a closed store it is the user's to take";
  StoreFiles files;
  EXPECT_EQ(OpenStoreFiles(options_, Dir(), &files).code(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race
