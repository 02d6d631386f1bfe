// The init of a guest with emulated NVMe disks: tests that need such devices.
//
// The disks have serial numbers as names: "files" holds an empty ext4, "first" and "second" hold
// zeros. scripts/nvme_guest.py boots it and reads its lines on the serial console:
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

// Writes patterns through the block devices and reads them back through passthrough, whole and in
// parts. Also checks the errors of bad reads.
std::string CheckPassthrough(const Disks& disks);

// Tries to make a store over devices that hold data: it must refuse them and leave them unchanged.
std::string CheckRefusals(const Disks& disks);
// Writes, reads, reopens and verifies a store over both raw disks; its directory is on the third.
std::string CheckStore(const Disks& disks);

// Measures random reads of one disk by every back end.
void CompareBackends(const Disks& disks);

// Measures reads of both disks, striped by the engine and by md RAID-0, whose modules the initial
// file system may have. Returns why there was no RAID-0, or nothing.
std::string CompareWithRaid(const Disks& disks);

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_NVME_TEST_H_
