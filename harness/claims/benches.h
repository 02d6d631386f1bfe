// The benches of bin/claims.
#ifndef HARNESS_CLAIMS_BENCHES_H_
#define HARNESS_CLAIMS_BENCHES_H_

#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/claims/bench.h"

namespace engine_race::harness {

// While true, a value's checksum is a constant, so that the cost of a write without it can be
// measured. Only bin/claims is linked with a checksum function that has this switch. Each checksum
// costs a load and a branch more there.
extern std::atomic<bool> leave_out_checksums;

std::unique_ptr<Bench> MakeBatchesBench();
std::unique_ptr<Bench> MakeCApiBench();
std::unique_ptr<Bench> MakeIndexBench();
std::unique_ptr<Bench> MakeIoBench();
std::unique_ptr<Bench> MakeL1Bench();
std::unique_ptr<Bench> MakeNumaBench();
std::unique_ptr<Bench> MakeRaceBench();
std::unique_ptr<Bench> MakeSafetyBench();
std::unique_ptr<Bench> MakeScanBench();
std::unique_ptr<Bench> MakeSizesBench();
std::unique_ptr<Bench> MakeSpaceBench();

// The claims about text and memory of instances, from the JSON that scripts/numa_guest.py leaves.
// Empty when the guests lack one of the ways to have text, or when the JSON is something else.
// *errors gets the guests that did not come to their end or left a race out.
std::map<std::string, double> SharesOfGuests(const nlohmann::json& guests,
                                             std::vector<std::string>* errors);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_BENCHES_H_
