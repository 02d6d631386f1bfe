// The calls that every guest's init needs: mounting the kernel's file systems, lines on the serial
// console, and ending the guest. Also the test of NUMA guests.
//
// The kernel passes its command line's unknown names on as environment variables; those of the
// guests begin with "pc_". Thread-safe.
#ifndef HARNESS_GUEST_SYSTEM_H_
#define HARNESS_GUEST_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

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

// The test of a guest with several NUMA nodes: races of bin/numa, then stores that place their
// memory themselves. They run one after the other, on an ext4.
//
// Each line of the file /races is a name and the flags of a race. The guest says "RACE name" and
// passes on what the race prints. Then it says "FIGURES name JSON", with the race's figures on one
// line, and "END name CODE". Lines of /stores are the same for RunNumaStore. The host judges:
// scripts/numa_guest.py.

[[noreturn]] void RunNumaTest();

}  // namespace engine_race::guest

#endif  // HARNESS_GUEST_SYSTEM_H_
