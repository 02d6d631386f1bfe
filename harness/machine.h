// The machine in a few words, as figures must name it.
//
// Stateless.
#ifndef HARNESS_MACHINE_H_
#define HARNESS_MACHINE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace harness {

// CPU model, CPUs that this process may use, memory, kernel, and the file system of `dir`.
nlohmann::json DescribeMachine(const std::string& dir);

}  // namespace harness

#endif  // HARNESS_MACHINE_H_
