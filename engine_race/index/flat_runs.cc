#include "engine_race/index/flat_runs.h"

#include <utility>

namespace engine_race {

std::unique_ptr<const FlatRuns> FlatRuns::Of(const PartRow& row) {
  if (row.empty()) return nullptr;
  auto runs = std::make_unique<FlatRuns>();
  runs->first_keys_.reserve(row.size() - 1);
  runs->later_.reserve(row.size() - 1);
  for (size_t i = 0; i < row.size(); ++i) {
    const SortedRun& run = row.part(i).run;
    std::shared_ptr<const Region> mapping = run.mapping();
    if (mapping == nullptr) return nullptr;
    if (i > 0) {
      runs->first_keys_.push_back(run.min_key());
      runs->later_.push_back(run.view());
    }
    // Runs that were built together lie in one slab.
    if (runs->mappings_.empty() || runs->mappings_.back() != mapping) {
      runs->mappings_.push_back(std::move(mapping));
    }
  }
  runs->mappings_.shrink_to_fit();
  return runs;
}

size_t FlatRuns::memory_bytes() const {
  return sizeof(*this) + first_keys_.capacity() * sizeof(first_keys_[0]) +
         later_.capacity() * sizeof(later_[0]) + mappings_.capacity() * sizeof(mappings_[0]);
}

}  // namespace engine_race
