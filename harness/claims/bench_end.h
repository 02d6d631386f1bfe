// How a bench begins and ends: room for its stores, its table, what failed, its JSON.
//
// Stateless.
#ifndef HARNESS_CLAIMS_BENCH_END_H_
#define HARNESS_CLAIMS_BENCH_END_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace harness {

// Says why the program cannot do what it was asked to; the exit code for that.
int RefuseBench(const char* program, const std::string& why);

// Empty when `dir` has that much room, else what is missing.
std::string WhyNoRoom(const std::string& dir, uint64_t needed_bytes);

// Prints the table and the failures and saves the figures, unless `json_path` is empty; the exit
// code.
int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path);

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_END_H_
