// The CPU time of a read through the C API beside one in C++. The reads are random, of a store in
// memory, so no device takes part.
//
// Each side opens the store anew in each round, and every other round reverses the sides. One
// thread at a time.
#ifndef HARNESS_CLAIMS_BENCH_C_API_H_
#define HARNESS_CLAIMS_BENCH_C_API_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct CApiBenchConfig {
  std::string dir;  // empty and writable, in memory
  uint64_t record_count = 50000;
  uint64_t read_count = 100000;  // of each side in each round
  uint32_t round_count = 41;
  uint64_t seed = 1;
};

class BenchCApi {
 public:
  explicit BenchCApi(CApiBenchConfig config);

  // Makes the store. On failure there is an error.
  void Fill();
  void CompareReads();

  const std::vector<std::string>& errors() const { return errors_; }
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  // CPU time of a read in nanoseconds, by a call of its own for each side.
  engine_race::Status TimeReads(bool into_memory, double* ns) const;
  engine_race::Status TimeReadsOfC(double* ns) const;
  // False, with an error noted, when the side failed.
  bool Note(const engine_race::Status& status);

  const CApiBenchConfig config_;
  ClaimRounds rounds_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_C_API_H_
