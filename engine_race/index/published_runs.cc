#include "engine_race/index/published_runs.h"

namespace engine_race {

std::unique_ptr<PublishedRuns> PublishedRuns::Of(const PartRow& row, const BlockFrames* blocks,
                                                 l1::Limbo* limbo) {
  std::unique_ptr<PublishedRuns> runs;
  for (size_t i = 0; i < row.size(); ++i) {
    const Part& part = row.part(i);
    // Without frames nothing is found in a paged run.
    const bool can_find = !part.is_paged() || blocks->cache() != nullptr;
    if (part.run_count() == 0 || !can_find) continue;
    if (part.run.count() > 0) part.run.NotePublished(limbo);
    const Run run = {part.run.view(), part.is_paged() ? part.extent.get() : nullptr};
    if (runs == nullptr) {
      runs.reset(new PublishedRuns(blocks));
      runs->first_ = run;
    } else {
      runs->later_.push_back(run);
      runs->first_keys_.push_back(part.min_run_key());
    }
  }
  return runs;
}

size_t PublishedRuns::memory_bytes() const {
  return sizeof(*this) + later_.capacity() * sizeof(later_[0]) +
         first_keys_.capacity() * sizeof(first_keys_[0]);
}

}  // namespace engine_race
