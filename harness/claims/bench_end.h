// The beginning and end of a bench: checks the space for its stores, prints its table and failures,
// saves its JSON.
//
// Stateless.
#ifndef HARNESS_CLAIMS_BENCH_END_H_
#define HARNESS_CLAIMS_BENCH_END_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace harness {

// Prints why the program cannot run as asked. Returns the exit code for that.
int RefuseBench(const char* program, const std::string& why);

// Returns nothing when `dir` has that much space, otherwise how much is missing.
std::string WhyNoRoom(const std::string& dir, uint64_t needed_bytes);

// Prints the table and the failures, and saves the figures unless `json_path` is empty. Returns the
// exit code.
int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path);

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_END_H_
