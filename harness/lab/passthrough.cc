#include "harness/lab/passthrough.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine_race/base/memory.h"

namespace engine_race::lab {

namespace {

// From the NVM Express Base Specification: the command, its structures, and the fields that are
// read.
constexpr uint8_t kIdentify = 0x06;
constexpr uint32_t kIdentifyNamespace = 0;
constexpr uint32_t kIdentifyController = 1;
constexpr uint32_t kIdentifyBytes = 4096;
constexpr uint32_t kNamespaceSizeAt = 0;  // in blocks, 8 bytes
constexpr uint32_t kFormatInUseAt = 26;   // its number: bits 0 to 3, and 5 to 6 above them
constexpr uint32_t kFormatsAt = 128;      // 4 bytes each
constexpr uint32_t kFormatBytes = 4;
constexpr uint32_t kMetadataBytesAt = 0;      // of a format, 2 bytes
constexpr uint32_t kBlockShiftAt = 2;         // of a format
constexpr uint32_t kMaxTransferShiftAt = 77;  // in the smallest pages; 0: no limit
constexpr uint32_t kSmallestPageBytes = 4096;
constexpr uint32_t kMaxBlockShift = 16;

// Longer commands need more segments than some kernels map for one command.
constexpr uint32_t kSafeTransferBytes = 128 * 1024;

Status Identify(const PassthroughDevice& device, uint32_t structure, char* data) {
  nvme_admin_cmd command = {};
  command.opcode = kIdentify;
  command.nsid = structure == kIdentifyNamespace ? device.namespace_id : 0;
  command.addr = reinterpret_cast<uint64_t>(data);
  command.data_len = kIdentifyBytes;
  command.cdw10 = structure;
  const int result = ::ioctl(device.fd.get(), NVME_IOCTL_ADMIN_CMD, &command);
  if (result == 0) return Status::Ok();
  // Above zero it is the device's own status.
  return Status::NotSupported(
      device.path +
      ": identify: " + (result > 0 ? "status " + std::to_string(result) : std::strerror(errno)));
}

Status ReadNamespace(PassthroughDevice* device, char* data) {
  ENGINE_RACE_RETURN_IF_ERROR(Identify(*device, kIdentifyNamespace, data));
  const auto flags = static_cast<uint8_t>(data[kFormatInUseAt]);
  const uint32_t format = (flags & 0xf) | (flags >> 5 & 3) << 4;
  const char* const in_use = data + kFormatsAt + format * kFormatBytes;
  uint16_t metadata_bytes = 0;
  std::memcpy(&metadata_bytes, in_use + kMetadataBytesAt, sizeof(metadata_bytes));
  const auto block_shift = static_cast<uint8_t>(in_use[kBlockShiftAt]);
  uint64_t block_count = 0;
  std::memcpy(&block_count, data + kNamespaceSizeAt, sizeof(block_count));
  if (metadata_bytes != 0 || block_shift > kMaxBlockShift) {
    return Status::NotSupported(device->path + ": blocks of 2^" + std::to_string(block_shift) +
                                " bytes with " + std::to_string(metadata_bytes) +
                                " bytes of metadata");
  }
  device->block_bytes = uint32_t{1} << block_shift;
  device->size_bytes = block_count << block_shift;
  return Status::Ok();
}

Status ReadController(PassthroughDevice* device, char* data) {
  ENGINE_RACE_RETURN_IF_ERROR(Identify(*device, kIdentifyController, data));
  const auto shift = static_cast<uint8_t>(data[kMaxTransferShiftAt]);
  device->max_transfer_bytes = kSafeTransferBytes;
  if (shift != 0 && shift < 16) {
    device->max_transfer_bytes = std::min(kSafeTransferBytes, kSmallestPageBytes << shift);
  }
  return Status::Ok();
}

// Does not trust the names: both devices must report the same namespace and the same size.
Status CheckSame(const std::string& block_device, const PassthroughDevice& device) {
  UniqueFd block;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, block_device, O_RDONLY, 0, &block));
  uint64_t size_bytes = 0;
  const int namespace_id = ::ioctl(block.get(), NVME_IOCTL_ID);
  if (::ioctl(block.get(), BLKGETSIZE64, &size_bytes) != 0 || size_bytes != device.size_bytes ||
      namespace_id < 0 || static_cast<uint32_t>(namespace_id) != device.namespace_id) {
    return Status::NotSupported(device.path + " is not the namespace of " + block_device);
  }
  return Status::Ok();
}

// Removes digits from the front.
bool SkipDigits(std::string_view* text) {
  const size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
  text->remove_prefix(digits);
  return digits > 0;
}

}  // namespace

Status PassthroughPath(const std::string& block_device, std::string* path) {
  // Follows links such as those in /dev/disk/by-id to the kernel's name.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(block_device, error);
  if (error) return Status::FromErrno("realpath " + block_device, error.value());
  const std::string name = real.filename().string();
  constexpr std::string_view kPrefix = "nvme";
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) {
    rest.remove_prefix(kPrefix.size());
    const std::string numbers(rest);
    if (SkipDigits(&rest) && rest.starts_with("n")) {
      rest.remove_prefix(1);
      if (SkipDigits(&rest) && rest.empty()) {
        *path = real.parent_path() / ("ng" + numbers);
        return Status::Ok();
      }
    }
  }
  return Status::NotSupported(block_device + ": not a whole NVMe namespace");
}

Status OpenPassthrough(const std::string& block_device, PassthroughDevice* device) {
  PassthroughDevice opened;
  ENGINE_RACE_RETURN_IF_ERROR(PassthroughPath(block_device, &opened.path));
  struct stat info;
  if (::stat(opened.path.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) {
    return Status::NotSupported(opened.path + ": no such character device");
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, opened.path, O_RDONLY, 0, &opened.fd));
  const int namespace_id = ::ioctl(opened.fd.get(), NVME_IOCTL_ID);
  if (namespace_id <= 0) return Status::NotSupported(opened.path + ": not an NVMe namespace");
  opened.namespace_id = static_cast<uint32_t>(namespace_id);
  Region data;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIdentifyBytes, /*huge_pages=*/false, &data));
  ENGINE_RACE_RETURN_IF_ERROR(ReadNamespace(&opened, data.data()));
  ENGINE_RACE_RETURN_IF_ERROR(ReadController(&opened, data.data()));
  ENGINE_RACE_RETURN_IF_ERROR(CheckSame(block_device, opened));
  *device = std::move(opened);
  return Status::Ok();
}

}  // namespace engine_race::lab
