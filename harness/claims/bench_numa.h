// The measured claims about NUMA nodes. Guests with several nodes show where text and memory of
// instances lie. A machine with one node shows the cost of the launcher.
//
// Shares come from the file that scripts/numa_guest.py has left. The cost compares races that run
// after each other. Every other round reverses their order. One thread at a time.
#ifndef HARNESS_CLAIMS_BENCH_NUMA_H_
#define HARNESS_CLAIMS_BENCH_NUMA_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/claim_rounds.h"

namespace harness {

struct NumaBenchConfig {
  std::string dir;       // empty and writable
  std::string programs;  // the directory of bin/race and bin/numa
  uint32_t thread_count = 64;
  uint64_t records_per_thread = 5000;
  uint32_t round_count = 9;
  uint64_t seed = 1;
};

// The least shares of all guests; text_shared is a mean.
struct GuestShares {
  uint32_t node_count = 0;  // of the largest guest that ended and ran all races
  double text_shared = 0;   // the mean of the later instances of a shared program
  double text_copies = 1;
  double text_remap = 1;
  double anonymous = 1;
  // The numbers of nodes of guests that did not come to their end or left a race out.
  std::vector<uint32_t> failed_guests;
};
// Nullopt when the guests lack one of the ways to have text, or when the JSON is something else.
std::optional<GuestShares> SharesOfGuests(const nlohmann::json& guests);

class BenchNuma {
 public:
  explicit BenchNuma(NumaBenchConfig config);

  // Takes over the shares from the file.
  void AddGuests(const std::string& path);
  // Races with the launcher and without it.
  void CompareLauncher();

  const std::vector<std::string>& errors() const { return errors_; }
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  // Of one race.
  struct Took {
    // Of its phases, which is what the race reports, and of the whole command.
    double phase_seconds = 0;
    double whole_seconds = 0;
    double cpu_seconds = 0;
  };

  // Runs a program with the flags of this bench besides; false, with an error noted, when it fails.
  bool RunOne(std::vector<std::string> command, Took* took);
  void Fail(const std::string& what) { errors_.push_back(what); }

  const NumaBenchConfig config_;
  ClaimRounds rounds_;
  nlohmann::json guests_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_NUMA_H_
