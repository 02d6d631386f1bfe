// The init of a guest with emulated NVMe disks: what can only be tried on such devices.
//
// The disks are told apart by their serial numbers: "files" holds an empty ext4, "first" and
// "second" hold zeros. scripts/nvme_guest.py boots it and reads its lines on the serial console:
//   PASS <what>         a check that held
//   FAIL <what>: <why>  one that did not
//   INFO <text>         figures
//   DONE                the end; without it something broke
#ifndef HARNESS_GUEST_NVME_TEST_H_
#define HARNESS_GUEST_NVME_TEST_H_

#include <string>

namespace engine_race::guest {

// Block devices by the serial numbers above.
struct Disks {
  std::string files;
  std::string first;
  std::string second;
};

[[noreturn]] void RunNvmeTest();

// Each check returns the first thing that is wrong, or nothing.

// Patterns written through the block devices read back through passthrough, whole and in parts,
// with errors where the device gives them.
std::string CheckPassthrough(const Disks& disks);

// A store over both raw disks, its directory on the third: written, read, reopened, verified.
// Before it devices that hold something are refused, and are as they were.
std::string CheckRefusals(const Disks& disks);
std::string CheckStore(const Disks& disks);

// Random reads of one disk by every way there is.
void CompareBackends(const Disks& disks);

// Reads of both disks, striped by us and by md RAID-0, whose modules the initial file system may
// have. Returns why there was none, or nothing.
std::string CompareWithRaid(const Disks& disks);

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_NVME_TEST_H_
