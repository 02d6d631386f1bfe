#include "harness/system/device_io.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "engine_race/base/text_file.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

constexpr char kProcessFile[] = "/proc/self/io";
constexpr uint64_t kSectorBytes = 512;

}  // namespace

DeviceBytes operator-(const DeviceBytes& after, const DeviceBytes& before) {
  return {after.read - before.read, after.written - before.written,
          after.read_count - before.read_count, after.write_count - before.write_count};
}

DeviceIo::DeviceIo(const std::string& path) : source_(kProcessFile) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return;
  const dev_t device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
  const fs::path block =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  std::error_code error;
  const fs::path target = fs::canonical(block, error);
  if (error || !fs::exists(block / "stat", error)) return;
  device_ = target.filename().string();
  source_ = (block / "stat").string();
}

std::optional<DeviceBytes> DeviceIo::Read() const {
  const std::string text = ReadTextFile(source_);
  return source_ == kProcessFile ? ParseProcessIo(text) : ParseBlockStat(text);
}

std::optional<DeviceBytes> ParseBlockStat(const std::string& text) {
  // Requests, merged requests, sectors and milliseconds of reads, then those of writes.
  std::array<uint64_t, 7> fields = {};
  std::istringstream stream(text);
  for (uint64_t& field : fields) {
    if (!(stream >> field)) return std::nullopt;
  }
  return DeviceBytes{fields[2] * kSectorBytes, fields[6] * kSectorBytes, fields[0], fields[4]};
}

std::optional<DeviceBytes> ParseProcessIo(const std::string& text) {
  std::istringstream stream(text);
  std::map<std::string, uint64_t> counts;
  std::string name;
  uint64_t count = 0;
  while (stream >> name >> count) counts[name] = count;
  if (!counts.contains("read_bytes:") || !counts.contains("write_bytes:")) return std::nullopt;
  return DeviceBytes{counts["read_bytes:"], counts["write_bytes:"], counts["syscr:"],
                     counts["syscw:"]};
}

}  // namespace engine_race::harness
