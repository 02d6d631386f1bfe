// The file system of a directory: its kind and its free space.
//
// Stateless; thread-safe.
#ifndef HARNESS_SYSTEM_DISK_H_
#define HARNESS_SYSTEM_DISK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace engine_race::harness {

// The directory itself, or the nearest one above it that exists. An absolute name; "" is the
// working directory.
std::string NearestDir(const std::string& dir);

// Bytes that may still be written to the file system of `dir`; 0 when it cannot be asked.
uint64_t FreeBytes(const std::string& dir);

// Bytes that the files in and below `dir` whose names begin with `prefix` take on disk, holes left
// out. Files that are gone before they are looked at count nothing.
uint64_t AllocatedBytes(const std::string& dir, const std::string& prefix = "");

// Bytes to write below a directory, which need not exist yet.
struct SpaceNeed {
  std::string dir;
  uint64_t bytes = 0;
  uint64_t reused_bytes = 0;  // of files there that go before
};

// Empty, or which file system has too little room for all of these together. Raw devices are not
// looked at: the engine refuses a small one.
std::string WhyNoRoom(const std::vector<SpaceNeed>& needs);

// "ext4 on /dev/vda", as far as /proc/self/mountinfo tells.
std::string FileSystemName(const std::string& dir);

// Empties the page cache between two phases: writes it to the device, or drops it, so that the next
// phase starts cold.

// Syncs, then drops the page cache of the whole machine. Without the rights for that, drops it for
// the regular files directly in `dir`. Returns "drop_caches", "fadvise" or why files of `dir` are
// still in memory. On a tmpfs or ramfs it does nothing, because files have no other place there.
std::string DropPageCache(const std::string& dir);

// The second way alone: for a program that runs beside others, whose cache it must not drop.
std::string DropFilesOf(const std::string& dir);

// Writes what the page cache has of the file system of `dir` to its device. False on failure.
bool SyncFileSystem(const std::string& dir);

// The bytes that the device below a directory has read and written, and in how many requests.
//
// Counted by the kernel for the whole block device, or the partition, so other programs count too.
// Where the file system has no block device of its own, as tmpfs and overlayfs have none, the
// kernel's count for this process stands in. Thread-safe.
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

#endif  // HARNESS_SYSTEM_DISK_H_
