#include "harness/claims/guest_shares.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace harness {

std::optional<GuestShares> SharesOfGuests(const nlohmann::json& guests) {
  GuestShares shares;
  double shared_sum = 0;
  std::map<std::string, uint32_t> race_counts;
  try {
    for (const nlohmann::json& guest : guests.at("guests")) {
      const auto node_count = guest.at("nodes").get<uint32_t>();
      if (guest.at("ok").get<bool>()) {
        shares.node_count = std::max(shares.node_count, node_count);
      } else {
        shares.failed_guests.push_back(node_count);
      }
      for (const auto& [name, race] : guest.at("races").items()) {
        const auto text = race.at("text").get<std::string>();
        const double local = race.at("code_local").get<double>();
        ++race_counts[text];
        shares.anonymous = std::min(shares.anonymous, race.at("anonymous_local").get<double>());
        if (text == "copies") shares.text_copies = std::min(shares.text_copies, local);
        if (text == "remap") shares.text_remap = std::min(shares.text_remap, local);
        if (text == "shared") shared_sum += race.at("code_local_mean").get<double>();
      }
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  for (const char* text : {"shared", "copies", "remap"}) {
    if (race_counts[text] == 0) return std::nullopt;
  }
  shares.text_shared = shared_sum / race_counts["shared"];
  return shares;
}

}  // namespace harness
