// Passthrough without an NVMe device; scripts/nvme_guest.py has the tests with one.
#include "harness/lab/passthrough.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

using io::ReadCompletion;
using io::ReadQueue;
using io::ReadRequest;
using lab::MakePassthroughQueue;
using lab::OpenPassthrough;
using lab::PassthroughDevice;
using lab::PassthroughPath;

class PassthroughPathTest : public testing::Test {
 protected:
  // Uses only names in a directory.
  Status PathOf(const std::string& name) {
    std::ofstream(dir_.Join(name)).put('x');
    return PassthroughPath(dir_.Join(name), &path_);
  }

  TempDir dir_;
  std::string path_;
};

TEST_F(PassthroughPathTest, LiesBesideAWholeNamespace) {
  ASSERT_TRUE(PathOf("nvme0n1").ok());
  EXPECT_EQ(path_, std::filesystem::canonical(dir_.path()) / "ng0n1");
  ASSERT_TRUE(PathOf("nvme12n34").ok());
  EXPECT_EQ(path_, std::filesystem::canonical(dir_.path()) / "ng12n34");
  std::filesystem::create_symlink(dir_.Join("nvme12n34"), dir_.Join("by-serial"));
  ASSERT_TRUE(PassthroughPath(dir_.Join("by-serial"), &path_).ok());
  EXPECT_EQ(path_, std::filesystem::canonical(dir_.path()) / "ng12n34");
}

TEST_F(PassthroughPathTest, PartitionsAndOtherDevicesHaveNone) {
  for (const char* const name :
       {"nvme0n1p1", "nvme0", "nvmen1", "nvme0n", "sda", "ng0n1", "nvme"}) {
    EXPECT_EQ(PathOf(name).code(), Code::kNotSupported) << name;
  }
  EXPECT_EQ(PassthroughPath(dir_.Join("nothing"), &path_).code(), Code::kIOError);
}

TEST_F(PassthroughPathTest, ADeviceWithoutACharacterDeviceIsNotSupported) {
  ASSERT_TRUE(PathOf("nvme0n1").ok());
  PassthroughDevice device;
  EXPECT_EQ(OpenPassthrough(dir_.Join("nvme0n1"), &device).code(), Code::kNotSupported);
  EXPECT_EQ(OpenPassthrough("/dev/null", &device).code(), Code::kNotSupported);
  const LoopDevice loop(1 << 20);
  if (!loop.valid()) GTEST_SKIP() << "no loop devices here: " << loop.why();
  EXPECT_EQ(OpenPassthrough(loop.path(), &device).code(), Code::kNotSupported);
}

class PassthroughQueueTest : public testing::Test {
 protected:
  // A file that claims to be a device: the kernel refuses every command.
  void SetUp() override {
    device_.path = dir_.Join("ng0n1");
    std::ofstream(device_.path).put('x');
    device_.fd = UniqueFd(::open(device_.path.c_str(), O_RDONLY | O_CLOEXEC));
    device_.size_bytes = 10 * 4096;
    device_.namespace_id = 1;
    device_.block_bytes = 512;
    device_.max_transfer_bytes = 4096;
    const std::array<const PassthroughDevice*, 1> devices = {&device_};
    const Status status = MakePassthroughQueue(devices, 8, &queue_);
    if (status.code() == Code::kNotSupported) GTEST_SKIP() << status.ToString();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  ReadCompletion Read(int fd, uint32_t size_bytes, uint64_t offset) {
    const ReadRequest request = {fd, size_bytes, offset, buffer_.data(), 7};
    size_t started = 0;
    std::vector<ReadCompletion> completions;
    EXPECT_TRUE(queue_->Submit({&request, 1}, &started).ok());
    EXPECT_EQ(started, 1u);
    EXPECT_EQ(queue_->in_flight(), 1u);
    EXPECT_TRUE(queue_->Wait(1, &completions).ok());
    EXPECT_EQ(queue_->in_flight(), 0u);
    EXPECT_EQ(completions.size(), 1u);
    return completions.empty() ? ReadCompletion() : completions.front();
  }

  TempDir dir_;
  PassthroughDevice device_;
  std::unique_ptr<ReadQueue> queue_;
  std::array<char, 4 * 4096> buffer_ = {};
};

TEST_F(PassthroughQueueTest, ErrorsComeBackWithTheirRead) {
  EXPECT_EQ(Read(device_.fd.get(), 4096, 0).tag, 7u);
  EXPECT_EQ(Read(device_.fd.get(), 4096, 0).error, EOPNOTSUPP);
  EXPECT_EQ(Read(device_.fd.get(), 16384, 4096).error, EOPNOTSUPP) << "of several commands";
  EXPECT_EQ(Read(device_.fd.get() + 1, 4096, 0).error, EBADF);
  EXPECT_EQ(Read(device_.fd.get(), 4096, 100).error, EINVAL);
  EXPECT_EQ(Read(device_.fd.get(), 100, 0).error, EINVAL);
}

TEST_F(PassthroughQueueTest, PastTheEndThereIsNothing) {
  const ReadCompletion completion = Read(device_.fd.get(), 4096, device_.size_bytes);
  EXPECT_EQ(completion.error, 0);
  EXPECT_EQ(completion.read_bytes, 0u);
}

TEST_F(PassthroughQueueTest, TakesNoMoreThanItIsDeep) {
  const std::vector<ReadRequest> requests(9, {device_.fd.get(), 4096, 0, buffer_.data(), 0});
  size_t started = 0;
  EXPECT_EQ(queue_->Submit(requests, &started).code(), Code::kInvalidArgument);
  EXPECT_EQ(started, 0u);
  ASSERT_TRUE(queue_->Submit({requests.data(), 8}, &started).ok());
  EXPECT_EQ(started, 8u);
  std::vector<ReadCompletion> completions;
  ASSERT_TRUE(queue_->Wait(8, &completions).ok());
  EXPECT_EQ(completions.size(), 8u);
  EXPECT_EQ(MakePassthroughQueue({}, 0, &queue_).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace engine_race::test
