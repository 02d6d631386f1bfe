// The machine in a few words, as figures must name it.
//
// Stateless.
#ifndef HARNESS_SYSTEM_MACHINE_H_
#define HARNESS_SYSTEM_MACHINE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace harness {

// CPU model, CPUs that this process can keep busy, memory, kernel, and the file system of `dir`.
nlohmann::json DescribeMachine(const std::string& dir);

// Memory that can be had without anybody's being swapped out; 0 where /proc does not tell.
uint64_t FreeMemoryBytes();

}  // namespace harness

#endif  // HARNESS_SYSTEM_MACHINE_H_
