// sysfs keeps a device below the devices that it hangs on: a partition below its disk, the disk
// below its controller, the controller below a PCI function, which knows its node.
#include <stdlib.h>
#include <sys/sysmacros.h>

#include <charconv>
#include <memory>
#include <string>

#include "engine_race/base/sys.h"
#include "engine_race/base/text_file.h"
#include "engine_race/numa/topology.h"

namespace engine_race::numa {
namespace {

// Devices of devices that are looked through: a volume on a RAID on a crypt device on a disk.
constexpr uint32_t kMaxDepth = 8;

// The node that all devices below one device share, if they agree.
struct NodeOfDevices {
  std::optional<uint32_t> node;
  bool differ = false;

  void Add(const NodeOfDevices& other) {
    if (other.differ || (node && other.node && *node != *other.node)) differ = true;
    if (!node) node = other.node;
  }
};

// Without symlinks; empty when there is no such file.
std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
  return real == nullptr ? std::string() : std::string(real.get());
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// -1 stands for a device that is near to no node.
std::optional<uint32_t> ReadNumaNode(const std::string& directory) {
  const std::string text = ReadTextFile(directory + "/numa_node");
  uint32_t node = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), node);
  if (error != std::errc() || node >= kMaxNodeCount) return std::nullopt;
  return node;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  UniqueFd fd;
  std::vector<std::string> names;
  if (!sys::OpenDirectory(directory, /*create=*/false, &fd).ok()) return names;
  if (!sys::ListDirectory(fd.get(), &names).ok()) names.clear();
  return names;
}

NodeOfDevices Walk(const std::string& root, const std::string& device, uint32_t depth) {
  NodeOfDevices found;
  if (depth > kMaxDepth || device.empty()) return found;
  for (std::string at = device; at.size() > root.size(); at = ParentOf(at)) {
    found.node = ReadNumaNode(at);
    if (found.node) return found;
    // RAID, encryption and volumes name the devices that they are made of.
    for (const std::string& name : NamesIn(at + "/slaves")) {
      found.Add(Walk(root, RealPath(at + "/slaves/" + name), depth + 1));
    }
    // A disk of NVMe multipath lies in a subsystem, which has links to its controllers.
    if (ParentOf(at).ends_with("/nvme-subsystem")) {
      for (const std::string& name : NamesIn(at)) {
        const std::string controller = RealPath(at + '/' + name);
        if (name.starts_with("nvme") && !controller.starts_with(at)) {
          found.Add(Walk(root, controller, depth + 1));
        }
      }
    }
    if (found.node || found.differ) return found;
  }
  return found;
}

}  // namespace

std::optional<uint32_t> NodeOfDevice(const std::string& sysfs_root, dev_t device) {
  const std::string root = RealPath(sysfs_root);
  if (root.empty()) return std::nullopt;
  const std::string entry =
      root + "/dev/block/" + std::to_string(major(device)) + ':' + std::to_string(minor(device));
  const NodeOfDevices found = Walk(root, RealPath(entry), 0);
  return found.differ ? std::nullopt : found.node;
}

}  // namespace engine_race::numa
