// The bytes that the device below a directory has read and written, and in how many requests.
//
// Counted by the kernel for the whole block device, or the partition, so other programs count too.
// Where the file system has no block device of its own, as tmpfs and overlayfs have none, the
// kernel's count for this process stands in. Thread-safe.
#ifndef HARNESS_SYSTEM_DEVICE_IO_H_
#define HARNESS_SYSTEM_DEVICE_IO_H_

#include <cstdint>
#include <optional>
#include <string>

namespace engine_race::harness {

struct DeviceBytes {
  uint64_t read = 0;
  uint64_t written = 0;
  // Requests of the device, or calls of the process.
  uint64_t read_count = 0;
  uint64_t write_count = 0;
};
// The growth of all counts since `before`.
DeviceBytes operator-(const DeviceBytes& after, const DeviceBytes& before);

class DeviceIo {
 public:
  // `path` is a directory, or a block device itself.
  explicit DeviceIo(const std::string& path);

  // "vda"; empty where there is no block device.
  const std::string& device() const { return device_; }
  // The file with the counts: "/sys/dev/block/254:0/stat" or "/proc/self/io".
  const std::string& source() const { return source_; }
  // Since the machine or the process started; nothing when the counts cannot be read.
  std::optional<DeviceBytes> Read() const;

 private:
  std::string device_;
  std::string source_;
};

// The counts in the text of a block device's stat file, and of a process's io file.
std::optional<DeviceBytes> ParseBlockStat(const std::string& text);
std::optional<DeviceBytes> ParseProcessIo(const std::string& text);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_DEVICE_IO_H_
