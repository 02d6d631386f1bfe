// Reads by NVMe commands that this program builds, past the kernel's block layer. Nothing comes
// closer to a driver in user space while the kernel still owns the device.
//
// Beside the block device of a namespace, /dev/nvme0n1, its character device, /dev/ng0n1, takes
// commands through io_uring. That needs Linux 5.19 or newer and root. The device is opened for
// reading only; writes use the block device with O_DIRECT.
#ifndef HARNESS_LAB_PASSTHROUGH_H_
#define HARNESS_LAB_PASSTHROUGH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::lab {

// An open character device, with the numbers that its commands need. Movable; immutable once open.
struct PassthroughDevice {
  UniqueFd fd;
  std::string path;
  uint64_t size_bytes = 0;
  uint32_t namespace_id = 0;
  // Offsets and sizes are multiples of this.
  uint32_t block_bytes = 0;
  // The longest transfer of one command; queues split a longer read.
  uint32_t max_transfer_bytes = 0;
};

// "/dev/ng0n1" for "/dev/nvme0n1"; kNotSupported for a partition and for any other device.
Status PassthroughPath(const std::string& block_device, std::string* path);

// Opens the character device beside `block_device`. kNotSupported when there is none, when it
// refuses our commands, or when blocks carry metadata.
Status OpenPassthrough(const std::string& block_device, PassthroughDevice* device);

// Makes a queue for reads whose `fd` is that of one of the devices; they outlive it. As with a
// file, a read past the end of the device is short. A read of a part of a block fails with EINVAL,
// a read of another fd with EBADF. kNotSupported where the kernel has no such ring.
Status MakePassthroughQueue(std::span<const PassthroughDevice* const> devices, uint32_t depth,
                            std::unique_ptr<io::ReadQueue>* queue);

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_PASSTHROUGH_H_
