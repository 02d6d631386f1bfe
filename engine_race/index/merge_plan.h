// The result of merging the runs, deltas and histories of one part, or of neighbouring parts.
//
// Thread safety: one thread. The sources must not change meanwhile, except that their words may be
// swizzled and unswizzled.
#ifndef ENGINE_RACE_INDEX_MERGE_PLAN_H_
#define ENGINE_RACE_INDEX_MERGE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/index/delta.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/history.h"
#include "engine_race/index/part.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

class MergePlan {
 public:
  // A plan for parts in key order. `only_deltas`: their runs stay as they are, and they have no
  // histories. The parts and `sources` must outlive the plan. This call and all below may throw
  // std::bad_alloc.
  MergePlan(std::span<const MergeSource> sources, bool only_deltas, bool keep_tombstones);
  MergePlan(const MergePlan&) = delete;
  MergePlan& operator=(const MergePlan&) = delete;

  // How many keys Emit emits.
  size_t live_count() const { return live_count_; }

  // Calls append(keys, refs, count) with the merged sequence, stretch by stretch.
  template <typename AppendFn>
  void Emit(const AppendFn& append) const {
    for (const Stretch& from : stretches_) {
      const SortedRun& run = from.run;
      size_t copied = 0;
      for (const Change& change : from.changes) {
        const size_t rank = change.rank;
        if (rank > copied) append(run.keys() + copied, run.refs() + copied, rank - copied);
        if (Kept(from, change)) {
          append(from.delta.keys() + change.newest, from.delta.refs() + change.newest, 1);
        }
        copied = rank + change.replaces;
      }
      if (run.count() > copied) {
        append(run.keys() + copied, run.refs() + copied, run.count() - copied);
      }
    }
  }

  // Calls keep(record) with the superseded records that live views need: the old undo records and
  // those that the deltas supersede. In the order of a History, with slots.
  template <typename KeepFn>
  void EmitUndo(const LiveVersions& live, const FrameSlots& frames, const KeepFn& keep) const {
    UndoFilter filter(live);
    for (const Stretch& from : stretches_) EmitUndoOf(from, frames, &filter, keep);
  }

  // An upper bound of the number of records that EmitUndo emits.
  size_t MostUndo() const;

  // The keys at `positions` of the merged sequence. `positions` must be ascending.
  std::vector<uint64_t> KeysAt(const std::vector<size_t>& positions) const;

 private:
  // The changes of one key: the delta's records [newest, end), and the record of the run that they
  // replace, if there is one.
  struct Change {
    uint32_t newest;
    uint32_t end;
    uint32_t rank;
    bool replaces;
  };
  // The plan of one part.
  struct Stretch {
    const SortedRun& run;
    const Delta& delta;
    const History* history;
    std::vector<Change> changes;
  };

  void FindChanges(Stretch* from);
  bool Kept(const Stretch& from, const Change& change) const {
    return keep_tombstones_ || !from.delta.refs()[change.newest].Load().tombstone();
  }

  // The reference for an undo record. Where tombstones are dropped, a deleted key counts as one
  // that never existed.
  ValueRef Undone(const RefWord& word, const FrameSlots& frames) const;

  template <typename KeepFn>
  void EmitUndoOf(const Stretch& from, const FrameSlots& frames, UndoFilter* filter,
                  const KeepFn& keep) const {
    const SortedRun& run = from.run;
    const Delta& delta = from.delta;
    const std::span<const UndoRecord> old =
        from.history == nullptr ? std::span<const UndoRecord>() : from.history->records();
    size_t at = 0;
    size_t run_at = 0;
    const auto is_in_run = [&](uint64_t key) {
      while (run_at < run.count() && run.keys()[run_at] < key) ++run_at;
      return run_at < run.count() && run.keys()[run_at] == key;
    };
    const auto add_old_of = [&](uint64_t key) {
      for (; at < old.size() && old[at].key == key; ++at) filter->Add(old[at], keep);
    };
    const auto emit_old = [&] {
      const uint64_t key = old[at].key;
      filter->BeginKey();
      add_old_of(key);
      filter->EndKey([&] { return !is_in_run(key); }, keep);
    };
    for (const Change& change : from.changes) {
      const uint64_t key = delta.keys()[change.newest];
      while (at < old.size() && old[at].key < key) emit_old();
      filter->BeginKey();
      add_old_of(key);
      ValueRef before =
          change.replaces ? Undone(run.refs()[change.rank], frames) : ValueRef::None();
      for (uint32_t i = change.end; i-- > change.newest;) {
        filter->Add({key, delta.stamps()[i], before}, keep);
        before = Undone(delta.refs()[i], frames);
      }
      filter->EndKey([&] { return !Kept(from, change); }, keep);
    }
    while (at < old.size()) emit_old();
  }

  const bool keep_tombstones_;
  const SortedRun no_run_;
  std::vector<Stretch> stretches_;
  size_t live_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_MERGE_PLAN_H_
