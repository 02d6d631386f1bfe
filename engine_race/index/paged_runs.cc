#include "engine_race/index/paged_runs.h"

namespace engine_race {

std::unique_ptr<PagedRuns> PagedRuns::Of(const PartRow& row, const BlockFrames& blocks) {
  std::unique_ptr<PagedRuns> runs(new PagedRuns(blocks));
  for (size_t i = 0; i < row.size(); ++i) {
    const Part& part = row.part(i);
    if (part.run.count() > 0) return nullptr;
    // A part without a run.
    if (part.extent == nullptr) continue;
    const PagedRun* const run = part.extent.get();
    if (runs->first_ == nullptr) {
      runs->first_ = run;
    } else {
      runs->later_.push_back(run);
      runs->first_keys_.push_back(run->min_key);
    }
  }
  return runs->first_ == nullptr ? nullptr : std::move(runs);
}

size_t PagedRuns::memory_bytes() const {
  return sizeof(*this) + later_.capacity() * sizeof(void*) +
         first_keys_.capacity() * sizeof(first_keys_[0]);
}

}  // namespace engine_race
