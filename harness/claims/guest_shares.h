// The shares of text and memory that lie on an instance's own nodes, from the JSON that
// scripts/numa_guest.py leaves.
//
// Pure functions.
#ifndef HARNESS_CLAIMS_GUEST_SHARES_H_
#define HARNESS_CLAIMS_GUEST_SHARES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace harness {

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

}  // namespace harness

#endif  // HARNESS_CLAIMS_GUEST_SHARES_H_
