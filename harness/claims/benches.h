// The benches of bin/claims, each in a file of its own.
//
// Pure functions, and one switch.
#ifndef HARNESS_CLAIMS_BENCHES_H_
#define HARNESS_CLAIMS_BENCHES_H_

#include <atomic>
#include <memory>

#include "harness/claims/bench.h"

namespace harness {

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
std::unique_ptr<Bench> MakeSpaceBench();

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCHES_H_
