// A block device for a test: a loop device over a file of zeros in a temporary directory.
//
// Header only. Owns the device and its file; both go with the object. Without the rights to make
// one, valid() is false and why() says what was missing: the test skips itself then.
#ifndef TEST_LOOP_DEVICE_H_
#define TEST_LOOP_DEVICE_H_

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "engine_race/base/sys.h"
#include "test/test_util.h"

namespace engine_race::test {

class LoopDevice {
 public:
  explicit LoopDevice(uint64_t size_bytes, uint32_t sector_bytes = 512) : dir_(FastParent()) {
    file_ = UniqueFd(::open(FilePath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (!file_.valid() || ::ftruncate(file_.get(), static_cast<off_t>(size_bytes)) != 0) {
      why_ = "no file for a loop device";
    } else if (!control.valid()) {
      why_ = std::string("/dev/loop-control: ") + std::strerror(errno);
    } else {
      Attach(control.get(), sector_bytes);
    }
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  ~LoopDevice() {
    if (valid()) ::ioctl(device_.get(), LOOP_CLR_FD, 0);
  }

  bool valid() const { return device_.valid(); }
  const std::string& why() const { return why_; }
  // "/dev/loop3"
  const std::string& path() const { return path_; }
  std::string FilePath() const { return dir_.Join("disk"); }

  // Past any cache of ours, as another program would see and change the device.
  bool Read(uint64_t offset, size_t size_bytes, std::string* bytes) const {
    bytes->resize(size_bytes);
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    return sys::PreadFull(fd.get(), bytes->data(), size_bytes, offset).ok();
  }
  bool Write(uint64_t offset, const std::string& bytes) const {
    const UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    return sys::PwriteFull(fd.get(), bytes.data(), bytes.size(), offset).ok() &&
           ::fsync(fd.get()) == 0;
  }

 private:
  // Another process may take the free one first.
  void Attach(int control_fd, uint32_t sector_bytes) {
    constexpr int kTries = 50;
    for (int i = 0; i < kTries; ++i) {
      const int number = ::ioctl(control_fd, LOOP_CTL_GET_FREE);
      if (number < 0) break;
      path_ = "/dev/loop" + std::to_string(number);
      // Containers with a /dev of their own do not get the node by themselves.
      constexpr unsigned kLoopMajor = 7;
      if (::access(path_.c_str(), F_OK) != 0) {
        ::mknod(path_.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number)));
      }
      UniqueFd device(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
      if (!device.valid()) break;
      loop_config config = {};
      config.fd = static_cast<uint32_t>(file_.get());
      config.block_size = sector_bytes;
      // The kernel lets go of it however the test ends.
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
        device_ = std::move(device);
        return;
      }
      if (errno != EBUSY) break;
    }
    why_ = path_ + ": " + std::strerror(errno);
  }

  TempDir dir_;
  UniqueFd file_;
  UniqueFd device_;
  std::string path_;
  std::string why_;
};

}  // namespace engine_race::test

#endif  // TEST_LOOP_DEVICE_H_
