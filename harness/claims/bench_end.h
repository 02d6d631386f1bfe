// The end of a bench: prints its table and failures, saves its JSON.
//
// Stateless.
#ifndef HARNESS_CLAIMS_BENCH_END_H_
#define HARNESS_CLAIMS_BENCH_END_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace engine_race::harness {

// Prints the table and the failures, and saves the figures unless `json_path` is empty. Returns the
// exit code.
int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_BENCH_END_H_
