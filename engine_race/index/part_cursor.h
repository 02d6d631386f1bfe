// Walks over the records that a view shows of one part: run, delta and history merged, in either
// direction.
//
// Thread safety: one thread; the part must not change meanwhile.
#ifndef ENGINE_RACE_INDEX_PART_CURSOR_H_
#define ENGINE_RACE_INDEX_PART_CURSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/index/part.h"
#include "engine_race/index/run_slices.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

inline size_t UpperRank(const SortedRun& run, uint64_t key) {
  return key == ~uint64_t{0} ? run.count() : run.Rank(key + 1);
}

// The keys of [first_key, last_key] in a run, or in a stretch of one.
inline RunSpan SpanOf(const SortedRun& run, uint64_t first_key, uint64_t last_key) {
  const size_t begin = run.Rank(first_key);
  return {run.keys() + begin, run.refs() + begin, UpperRank(run, last_key) - begin};
}
inline RunSpan SpanOf(const RunSpan& run, uint64_t first_key, uint64_t last_key) {
  const size_t begin = LowerBound(run.keys, run.count, first_key);
  return {run.keys + begin, run.refs + begin, UpperRank(run.keys, run.count, last_key) - begin};
}

// The live records of a part at one version, with keys in [first_key, last_key]. `run` has those of
// the part's run.
class PartCursor {
 public:
  PartCursor(const Part& part, const RunSpan& run, const FrameSlots& frames, uint64_t first_key,
             uint64_t last_key, uint64_t version)
      : part_(part),
        span_(run),
        frames_(frames),
        version_(version),
        run_end_(run.count),
        delta_(part.delta.Rank(first_key)),
        delta_end_(UpperRank(part.delta.keys(), part.delta.count(), last_key)) {
    ENGINE_RACE_ASSERT(first_key <= last_key);
    ENGINE_RACE_ASSERT(run_ <= run_end_ && delta_ <= delta_end_);
    // No view of this version or of a later one needs the history.
    if (part.history == nullptr || version >= part.history->end_version()) return;
    undo_ = part.history->records().data();
    history_ = part.history->Rank(first_key);
    history_end_ = last_key == ~uint64_t{0} ? part.history->records().size()
                                            : part.history->Rank(last_key + 1);
    ENGINE_RACE_ASSERT(history_ <= history_end_);
  }

  // How many tombstones of the delta it has stepped over.
  uint32_t crossed_count() const { return crossed_count_; }

  // Gives the next record from the front; false when none is left.
  bool Next(IndexEntry* entry) {
    while (delta_ < delta_end_ || history_ < history_end_) {
      if (NextChanged(entry)) return true;
    }
    if (run_ == run_end_) return false;
    *entry = {span_.keys[run_], RunRef(run_)};
    ++run_;
    return true;
  }

  // Appends the next records from the front, until *entries has `max_entries`. False when it
  // stopped there and some are left.
  bool AppendNext(size_t max_entries, std::vector<IndexEntry>* entries) {
    IndexEntry entry;
    while (delta_ < delta_end_ || history_ < history_end_) {
      if (!NextChanged(&entry)) continue;
      if (entries->size() >= max_entries) return false;
      entries->push_back(entry);
    }
    const size_t before = entries->size();
    const size_t room = max_entries - std::min(before, max_entries);
    const size_t count = std::min(room, run_end_ - run_);
    entries->resize(before + count);
    for (size_t i = 0; i < count; ++i, ++run_) {
      (*entries)[before + i] = {span_.keys[run_], RunRef(run_)};
    }
    return run_ == run_end_;
  }

  // Gives the next record from the back; false when none is left.
  bool Previous(IndexEntry* entry) {
    while (delta_ < delta_end_ || history_ < history_end_) {
      if (PreviousChanged(entry)) return true;
    }
    if (run_ == run_end_) return false;
    --run_end_;
    *entry = {span_.keys[run_end_], RunRef(run_end_)};
    return true;
  }

 private:
  // Takes the lowest key of run, delta and history; false when the view shows no record of it.
  bool NextChanged(IndexEntry* entry) {
    const Delta& delta = part_.delta;
    uint64_t key = ~uint64_t{0};
    if (delta_ < delta_end_) key = delta.keys()[delta_];
    if (history_ < history_end_) key = std::min(key, undo_[history_].key);
    if (run_ < run_end_) key = std::min(key, span_.keys[run_]);
    // The run has the oldest record. An undo record that fits replaces it, and a record of the
    // delta that fits replaces both.
    ValueRef ref = ValueRef::None();
    if (run_ < run_end_ && span_.keys[run_] == key) ref = RunRef(run_++);
    bool found = false;
    for (; history_ < history_end_ && undo_[history_].key == key; ++history_) {
      if (found || undo_[history_].superseded_at <= version_) continue;
      ref = undo_[history_].ref;
      found = true;
    }
    found = false;
    for (; delta_ < delta_end_ && delta.keys()[delta_] == key; ++delta_) {
      if (found || delta.stamps()[delta_] > version_) continue;
      ref = frames_.SlotOf(delta.refs()[delta_]);
      found = true;
    }
    crossed_count_ += found && ref.tombstone();
    *entry = {key, ref};
    return !ref.tombstone();
  }

  // Takes the highest key of run, delta and history; false when the view shows no record of it.
  bool PreviousChanged(IndexEntry* entry) {
    const Delta& delta = part_.delta;
    uint64_t key = 0;
    if (delta_ < delta_end_) key = delta.keys()[delta_end_ - 1];
    if (history_ < history_end_) key = std::max(key, undo_[history_end_ - 1].key);
    if (run_ < run_end_) key = std::max(key, span_.keys[run_end_ - 1]);
    ValueRef ref = ValueRef::None();
    if (run_ < run_end_ && span_.keys[run_end_ - 1] == key) ref = RunRef(--run_end_);
    // Undo records and records of the delta come newest first here, so the last one that fits
    // counts.
    for (; history_ < history_end_ && undo_[history_end_ - 1].key == key; --history_end_) {
      const UndoRecord& record = undo_[history_end_ - 1];
      if (record.superseded_at > version_) ref = record.ref;
    }
    bool found = false;
    for (; delta_ < delta_end_ && delta.keys()[delta_end_ - 1] == key; --delta_end_) {
      if (delta.stamps()[delta_end_ - 1] <= version_) {
        ref = frames_.SlotOf(delta.refs()[delta_end_ - 1]);
        found = true;
      }
    }
    crossed_count_ += found && ref.tombstone();
    *entry = {key, ref};
    return !ref.tombstone();
  }

  ValueRef RunRef(size_t rank) const { return frames_.SlotOf(span_.refs[rank]); }

  const Part& part_;
  const RunSpan span_;
  const FrameSlots& frames_;
  const uint64_t version_;
  // The records that are left of each source: [begin, end).
  size_t run_ = 0;
  size_t run_end_;
  size_t delta_;
  size_t delta_end_;
  const UndoRecord* undo_ = nullptr;
  size_t history_ = 0;
  size_t history_end_ = 0;
  uint32_t crossed_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_CURSOR_H_
