// The calls that every guest's init needs: mounting the kernel's file systems, lines on the serial
// console, and ending the guest. Also the tests of NUMA guests and of guests with NVMe disks.
//
// The kernel passes its command line's unknown names on as environment variables; those of the
// guests begin with "pc_". Thread-safe.
#ifndef HARNESS_GUEST_SYSTEM_H_
#define HARNESS_GUEST_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::guest {

// An argument of the kernel's command line; empty or 0 when it is not there.
std::string Argument(const char* name);
uint64_t Number(const char* name);

// One line on the console.
void Say(const std::string& line);

// Resets the machine, which ends the guest. Nothing is unmounted or closed.
[[noreturn]] void End();
[[noreturn]] void EndWith(const std::string& line);

void WriteText(const char* path, const std::string& text);

// Runs a program by its path and waits for it: its exit code, 128 and the signal that ended it, or
// -1.
int RunProgram(const std::vector<std::string>& args);
// In a child that was just forked: becomes the program.
[[noreturn]] void BecomeProgram(const std::vector<std::string>& args);
// The exit code of a child, as above.
int WaitFor(pid_t child);

// The file without its line ends and what indents its lines.
std::string OneLine(const std::string& path);

// Resets the machine after this time, from a new thread.
void ResetAfter(uint64_t ms);

// Mounts /proc, /sys and /dev, and makes the console standard input and output.
void MountSystem();
// Mounts a device at a directory, which it makes.
Status Mount(const std::string& device, const char* dir, const char* type);

// The test of a guest with several NUMA nodes: races of bin/numa, then stores that place their
// memory themselves. They run one after the other, on an ext4.
//
// Each line of the file /races is a name and the flags of a race. The guest says "RACE name" and
// passes on what the race prints. Then it says "FIGURES name JSON", with the race's figures on one
// line, and "END name CODE". Lines of /stores are the same for RunNumaStore. The host judges:
// scripts/numa_guest.py.

[[noreturn]] void RunNumaTest();

// The init of a guest with emulated NVMe disks: tests that need such devices.
//
// The serial numbers of the disks are "files", which holds an empty ext4, and "first" and "second",
// which hold zeros. scripts/nvme_guest.py boots it and reads its lines on the serial console:
//   PASS <what>         a check that held
//   FAIL <what>: <why>  one that did not
//   INFO <text>         figures
//   DONE                the end; without it something broke

// Block devices by the serial numbers above.
struct Disks {
  std::string files;
  std::string first;
  std::string second;
};

[[noreturn]] void RunNvmeTest();

// Each check returns the first thing that is wrong.

// Writes patterns through the block devices and reads them back through passthrough, whole and in
// parts. Also checks the errors of bad reads.
Status CheckPassthrough(const Disks& disks);

// Tries to make a store over devices that hold data: it must refuse them and leave them unchanged.
Status CheckRefusals(const Disks& disks);
// Writes, reads, reopens and verifies a store over both raw disks; its directory is on the third.
Status CheckStore(const Disks& disks);

// Measures random reads of one disk by every back end.
void CompareBackends(const Disks& disks);

// Measures reads of both disks, striped by the engine and by md RAID-0, whose modules the initial
// file system may have. An error says why there was no RAID-0.
Status CompareWithRaid(const Disks& disks);

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_SYSTEM_H_
