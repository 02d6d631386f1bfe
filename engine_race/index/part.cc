#include "engine_race/index/part.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <new>

namespace engine_race {
namespace {

constexpr uint32_t kMinDeltaLimit = 64;
constexpr uint32_t kMaxDeltaLimit = 1024;

// Writes a merged sequence into one run, or into two of given sizes.
class RunWriter {
 public:
  explicit RunWriter(std::vector<SortedRun>* runs) : runs_(runs) {}

  void Append(const uint64_t* keys, const ValueRef* refs, size_t count) {
    while (count > 0) {
      if (used_ == (*runs_)[current_].count()) {
        ++current_;
        used_ = 0;
        continue;
      }
      SortedRun& run = (*runs_)[current_];
      const size_t taken = std::min(count, run.count() - used_);
      std::memcpy(run.mutable_keys() + used_, keys, taken * sizeof(*keys));
      std::memcpy(run.mutable_refs() + used_, refs, taken * sizeof(*refs));
      used_ += taken;
      keys += taken;
      refs += taken;
      count -= taken;
    }
  }

 private:
  std::vector<SortedRun>* const runs_;
  size_t current_ = 0;
  size_t used_ = 0;
};

// Where each record of the delta meets the run.
class MergePlan {
 public:
  MergePlan(const SortedRun& run, const Delta& delta, bool keep_tombstones)
      : run_(run),
        delta_(delta),
        keep_tombstones_(keep_tombstones),
        places_(delta.count()),
        live_count_(run.count()) {
    for (size_t i = 0; i < places_.size(); ++i) {
      const uint64_t key = delta.keys()[i];
      places_[i].rank = static_cast<uint32_t>(run.Rank(key));
      places_[i].replaces = places_[i].rank < run.count() && run.keys()[places_[i].rank] == key;
      live_count_ += Kept(i);
      live_count_ -= places_[i].replaces;
    }
  }

  size_t live_count() const { return live_count_; }

  // Calls append(keys, refs, count) with the merged sequence, stretch by stretch.
  template <typename AppendFn>
  void Emit(const AppendFn& append) const {
    size_t copied = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      const size_t rank = places_[i].rank;
      if (rank > copied) append(run_.keys() + copied, run_.refs() + copied, rank - copied);
      if (Kept(i)) append(delta_.keys() + i, delta_.refs() + i, 1);
      copied = rank + places_[i].replaces;
    }
    if (run_.count() > copied) {
      append(run_.keys() + copied, run_.refs() + copied, run_.count() - copied);
    }
  }

  // The keys at `positions`, ascending, of the merged sequence.
  std::vector<uint64_t> KeysAt(const std::vector<size_t>& positions) const {
    std::vector<uint64_t> found;
    size_t passed = 0;
    Emit([&](const uint64_t* keys, const ValueRef*, size_t count) {
      while (found.size() < positions.size() && positions[found.size()] < passed + count) {
        found.push_back(keys[positions[found.size()] - passed]);
      }
      passed += count;
    });
    return found;
  }

 private:
  struct Place {
    uint32_t rank;
    bool replaces;
  };

  bool Kept(size_t i) const { return keep_tombstones_ || !delta_.refs()[i].tombstone(); }

  const SortedRun& run_;
  const Delta& delta_;
  const bool keep_tombstones_;
  std::vector<Place> places_;
  size_t live_count_;
};

Status MakeRuns(const MergePlan& plan, size_t split_keys, std::vector<SortedRun>* runs) {
  const size_t live = plan.live_count();
  const size_t left = live > split_keys ? live / 2 : live;
  std::vector<size_t> ends = {0, left - 1};
  if (left < live) ends.insert(ends.end(), {left, live - 1});
  const std::vector<uint64_t> bounds = plan.KeysAt(ends);
  for (size_t i = 0; i < ends.size(); i += 2) {
    const size_t count = ends[i + 1] - ends[i] + 1;
    const CellMap map = CellMap::Over(bounds[i], bounds[i + 1], SortedRun::CellCountFor(count));
    SortedRun run;
    ENGINE_RACE_RETURN_IF_ERROR(SortedRun::Create(count, map, nullptr, &run));
    runs->push_back(std::move(run));
  }
  RunWriter writer(runs);
  plan.Emit([&](const uint64_t* keys, const ValueRef* refs, size_t count) {
    writer.Append(keys, refs, count);
  });
  for (SortedRun& run : *runs) run.FillCells();
  return Status::Ok();
}

}  // namespace

uint32_t DeltaLimit(size_t run_count) {
  const auto root = static_cast<uint32_t>(std::sqrt(static_cast<double>(run_count)));
  return std::clamp(2 * root, kMinDeltaLimit, kMaxDeltaLimit);
}

Status MergePart(const Part& part, bool keep_tombstones, size_t split_keys,
                 PartReplacement* replacement) {
  assert(part.delta.count() > 0);
  const SortedRun no_run;
  const bool appended = part.run.count() > 0 && part.delta.keys()[0] > part.run.max_key();
  replacement->parts.clear();
  replacement->keeps_old_run = appended && part.run.count() + part.delta.count() > split_keys;
  try {
    const MergePlan plan(replacement->keeps_old_run ? no_run : part.run, part.delta,
                         keep_tombstones);
    std::vector<SortedRun> runs;
    if (plan.live_count() > 0) ENGINE_RACE_RETURN_IF_ERROR(MakeRuns(plan, split_keys, &runs));
    for (SortedRun& run : runs) {
      replacement->parts.push_back(std::make_unique<Part>());
      replacement->parts.back()->run = std::move(run);
    }
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to merge new records");
  }
}

}  // namespace engine_race
