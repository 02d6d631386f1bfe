#include "harness/guest/nvme_test.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "harness/guest/system.h"

namespace engine_race::guest {
namespace {

// The guest ends itself after this time, in case the host does not.
constexpr uint64_t kLifeMs = 120'000;

// Finds disks by serial number: the kernel numbers controllers in any order.
std::string FindDisks(Disks* disks) {
  std::map<std::string, std::string> by_serial;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    std::string serial;
    std::ifstream(entry.path() / "device/serial") >> serial;
    by_serial[serial] = "/dev/" + entry.path().filename().string();
  }
  *disks = {by_serial["files"], by_serial["first"], by_serial["second"]};
  return disks->files.empty() || disks->first.empty() || disks->second.empty() ? "a disk is missing"
                                                                               : "";
}

void Report(const std::string& what, const std::string& violation) {
  Say(violation.empty() ? "PASS " + what : "FAIL " + what + ": " + violation);
}

}  // namespace

[[noreturn]] void RunNvmeTest() {
  ResetAfter(kLifeMs);
  Disks disks;
  const std::string missing = FindDisks(&disks);
  Report("three disks", missing);
  if (!missing.empty()) EndWith("DONE");
  Report("passthrough reads", CheckPassthrough(disks));
  CompareBackends(disks);
  Report("devices that hold something are refused", CheckRefusals(disks));
  Report("a store over raw devices", CheckStore(disks));
  const std::string no_raid = CompareWithRaid(disks);
  if (!no_raid.empty()) Say("INFO not compared with md RAID-0: " + no_raid);
  EndWith("DONE");
}

}  // namespace engine_race::guest
