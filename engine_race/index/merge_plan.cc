#include "engine_race/index/merge_plan.h"

#include "engine_race/base/assert.h"

namespace engine_race {

MergePlan::MergePlan(std::span<const MergeSource> sources, bool only_deltas, bool keep_tombstones)
    : keep_tombstones_(keep_tombstones) {
  stretches_.reserve(sources.size());
  for (const MergeSource& source : sources) {
    stretches_.push_back({only_deltas ? no_run_ : *source.run,
                          *source.delta,
                          only_deltas ? nullptr : source.history.get(),
                          {}});
    FindChanges(&stretches_.back());
  }
}

size_t MergePlan::MostUndo() const {
  size_t count = 0;
  for (const Stretch& from : stretches_) {
    count += from.delta.count() + (from.history == nullptr ? 0 : from.history->records().size());
  }
  return count;
}

std::vector<uint64_t> MergePlan::KeysAt(const std::vector<size_t>& positions) const {
  std::vector<uint64_t> found;
  size_t passed = 0;
  Emit([&](const uint64_t* keys, const RefWord*, size_t count) {
    while (found.size() < positions.size() && positions[found.size()] < passed + count) {
      found.push_back(keys[positions[found.size()] - passed]);
    }
    passed += count;
  });
  ENGINE_RACE_ASSERT(passed == live_count_ && found.size() == positions.size());
  return found;
}

void MergePlan::FindChanges(Stretch* from) {
  const Delta& delta = from->delta;
  const SortedRun& run = from->run;
  live_count_ += run.count();
  from->changes.reserve(delta.count() - delta.superseded_count());
  for (uint32_t i = 0; i < delta.count();) {
    const uint64_t key = delta.keys()[i];
    Change change;
    change.newest = i;
    while (i < delta.count() && delta.keys()[i] == key) ++i;
    change.end = i;
    ENGINE_RACE_ASSERT(change.end > change.newest);
    change.rank = static_cast<uint32_t>(run.Rank(key));
    change.replaces = change.rank < run.count() && run.keys()[change.rank] == key;
    live_count_ += Kept(*from, change);
    live_count_ -= change.replaces;
    from->changes.push_back(change);
  }
  ENGINE_RACE_ASSERT(from->changes.size() == delta.count() - delta.superseded_count());
}

ValueRef MergePlan::Undone(const RefWord& word, const FrameSlots& frames) const {
  const ValueRef ref = frames.SlotOf(word);
  return ref.tombstone() && !keep_tombstones_ ? ValueRef::None() : ref;
}

}  // namespace engine_race
