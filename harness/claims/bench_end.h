// How a bench begins and ends: room for its stores, its table, what failed, its JSON.
//
// Stateless.
#ifndef HARNESS_CLAIMS_BENCH_END_H_
#define HARNESS_CLAIMS_BENCH_END_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/race/dir.h"
#include "harness/race/phase.h"

namespace harness {

// Says why the program cannot do what it was asked to; the exit code for that.
int RefuseBench(const char* program, const std::string& why);

// Empty when `dir` has that much room, else what is missing.
std::string WhyNoRoom(const std::string& dir, uint64_t needed_bytes);

// Makes `dir` the place of a race, without an older one's store, and enough room for that of `race`
// and the files of fio beside it; `where` empty: a fresh directory here. Empty, or what is wrong.
std::string PrepareRace(const std::string& where, RaceDir* dir, RaceConfig* race);

// Prints the table and the failures and saves the figures, unless `json_path` is empty; the exit
// code.
int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path);

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_END_H_
