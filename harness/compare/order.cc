#include "harness/compare/order.h"

#include <algorithm>

namespace harness {
double CompareAnswer::OperationsPerSecond() const {
  return ok() ? Figure("operations_per_s").value_or(0) : 0;
}

std::optional<double> CompareAnswer::Figure(const char* name) const {
  if (!run.is_object() || !run.contains(name) || !run[name].is_number()) return std::nullopt;
  return run[name].get<double>();
}

std::vector<uint32_t> StoresInTurn(uint32_t round, uint32_t store_count) {
  std::vector<uint32_t> stores;
  stores.reserve(store_count);
  for (uint32_t i = 0; i < store_count; ++i) stores.push_back((round + i) % store_count);
  if (store_count > 0 && round / store_count % 2 == 1) std::reverse(stores.begin(), stores.end());
  return stores;
}

}  // namespace harness
