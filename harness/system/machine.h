// A short description of the machine, for reports of figures.
//
// Stateless.
#ifndef HARNESS_SYSTEM_MACHINE_H_
#define HARNESS_SYSTEM_MACHINE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace engine_race::harness {

// CPU model, CPUs that this process may use, memory, kernel, and the file system of `dir`.
nlohmann::json DescribeMachine(const std::string& dir);

// Memory that can be allocated without swapping; 0 when /proc does not report it.
uint64_t FreeMemoryBytes();

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_MACHINE_H_
