// Reads by NVMe commands of our own making, past the kernel's block layer: what comes closest to a
// driver in user space while the kernel still owns the device.
//
// Of a whole namespace, /dev/nvme0n1, the character device beside it, /dev/ng0n1, takes commands
// through io_uring. That needs Linux 5.19 or newer and the rights of root. Opened for reading only;
// writes go through the block device, past the page cache, as always.
#ifndef HARNESS_LAB_PASSTHROUGH_H_
#define HARNESS_LAB_PASSTHROUGH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/read_queue.h"

namespace lab {

using engine_race::Status;

// An open character device and what its commands need to know. Movable; immutable once open.
struct PassthroughDevice {
  engine_race::UniqueFd fd;
  std::string path;
  uint64_t size_bytes = 0;
  uint32_t namespace_id = 0;
  // Offsets and sizes are multiples of this.
  uint32_t block_bytes = 0;
  // Of one command; queues make several of a longer read.
  uint32_t max_transfer_bytes = 0;
};

// "/dev/ng0n1" for "/dev/nvme0n1"; kNotSupported for a partition and for what is no NVMe device.
Status PassthroughPath(const std::string& block_device, std::string* path);

// Opens the character device beside `block_device`. kNotSupported where there is none, where it
// takes no commands from us, or where blocks carry metadata.
Status OpenPassthrough(const std::string& block_device, PassthroughDevice* device);

// A queue for reads whose `fd` is that of one of the devices; they outlive it. A read that reaches
// past the end of the device is short, as of a file; one that is not of whole blocks fails with
// EINVAL, one with another fd with EBADF. kNotSupported where the kernel has no such ring.
Status MakePassthroughQueue(std::span<const PassthroughDevice* const> devices, uint32_t depth,
                            std::unique_ptr<engine_race::io::ReadQueue>* queue);

}  // namespace lab

#endif  // HARNESS_LAB_PASSTHROUGH_H_
